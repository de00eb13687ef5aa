"""The page's looks: two themes by the reader's preference, one for paper; colours from Okabe and Ito."""

CSS = """
:root{color-scheme:light dark;
--paper:#fdfcf9;--card:#fff;--ink:#1d2226;--quiet:#5d666d;--hair:#e2dfd8;--soft:#f3f1eb;--link:#00598c;
--c0:#0072b2;--c1:#d55e00;--c2:#00855f;--c3:#a3507f;--c4:#9a6a00;--c5:#1a86c4;--c6:#333;
--b0:#0072b2;--b1:#f2b84b;--b2:#a9d8f3;--b3:#b9b9b9;--warn:#fdf3df;--warnline:#e0a536}
@media screen and (prefers-color-scheme:dark){:root{
--paper:#14181b;--card:#1b2024;--ink:#e7e9ea;--quiet:#9aa5ad;--hair:#30383e;--soft:#20272c;--link:#7cc4f0;
--c0:#56b4e9;--c1:#f08c3c;--c2:#2fc49a;--c3:#e093bd;--c4:#e6b422;--c5:#8fd0f5;--c6:#ddd;
--b0:#2b8fcb;--b1:#e3a93a;--b2:#a5d3ec;--b3:#7f878c;--warn:#2b2516;--warnline:#b98522}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
main,.page{max-width:1200px;margin:0 auto;padding:0 24px}
header.page{padding-top:36px}
footer.page{color:var(--quiet);font-size:13px;padding-top:40px;padding-bottom:40px}
.kicker{display:flex;align-items:center;gap:8px;margin:0;color:var(--quiet);font-size:14px;letter-spacing:.02em}
.brand{width:22px;height:22px;fill:none;stroke:var(--c1);stroke-width:1.6;stroke-linecap:round}
h1{font-size:34px;line-height:1.2;margin:6px 0 10px;letter-spacing:-.015em}
h2{font-size:24px;line-height:1.25;margin:0 0 12px;letter-spacing:-.01em}
h3{font-size:18px;margin:0 0 4px}
h4{font-size:15px;margin:0 0 4px}
p{margin:0 0 10px}
a{color:var(--link)}
.quiet{color:var(--quiet);margin:0}
.lead{font-size:18px;max-width:62em;margin:14px 0 18px}
.part{margin-top:44px}
.survey{margin-top:64px;border-top:3px solid var(--ink);padding-top:22px}
.survey .part>h3{font-size:20px;margin-bottom:10px}
.survey .part{margin-top:34px}
.contents ul{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
.contents.many>ul{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:12px 24px}
.contents.many>ul>li>a{font-weight:600;font-size:15px}
.contents.many ul ul{gap:0 12px}
.tiles{display:flex;flex-wrap:wrap;gap:10px 40px;margin:0;padding:14px 0;
border:solid var(--hair);border-width:1px 0}
.tiles div{display:flex;flex-direction:column-reverse}
.tiles dt{color:var(--quiet);font-size:13px}
.tiles dd{margin:0;font-size:24px;line-height:1.2;font-weight:600}
.cards{list-style:none;margin:0;padding:0;display:grid;gap:14px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr))}
.card{background:var(--card);border:1px solid var(--hair);border-radius:10px;padding:14px 16px 12px}
.card .figure{display:block;font-size:30px;line-height:1.15;letter-spacing:-.02em;color:var(--c0)}
.card b{display:block;font-size:14px;margin:2px 0 8px}
.card p{font-size:14.5px;line-height:1.5;margin:0}
.warnings{list-style:none;margin:14px 0 0;padding:12px 16px;background:var(--warn);
border-left:4px solid var(--warnline);border-radius:4px;font-size:14.5px}
.warnings li+li{margin-top:6px}
.group{margin-top:22px}
.group:first-of-type{margin-top:0}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:6px 0 10px;padding:0;font-size:13px}
.legend li{display:flex;align-items:center;gap:6px}
.sign{width:12px;height:12px;flex:none;overflow:visible}
.sign.wide{width:28px}
.panels{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr))}
figure{margin:0;background:var(--card);border:1px solid var(--hair);border-radius:10px;padding:12px 12px 8px;
display:flex;flex-direction:column}
figure .legend{margin:2px 0 4px;font-size:12px;gap:0 12px;line-height:1.4}
figcaption{font-size:13px;line-height:1.4;color:var(--quiet);padding:0 4px 8px;min-height:66px}
figcaption b{display:block;font-size:15px;color:var(--ink)}
sub{font-size:.75em;line-height:0}
.chart{display:block;width:100%;height:auto;overflow:visible}
.chart text{font-size:11px;fill:var(--quiet)}
.chart .ty,.chart .end{text-anchor:end}
.chart .tx,.chart .name,.chart .none,.chart .why:not(.end){text-anchor:middle}
.chart .none{font-size:14px}
.grid{stroke:var(--hair);stroke-width:1}
.axis,.tick{stroke:var(--quiet);stroke-width:1}
.ref{stroke:var(--quiet);stroke-dasharray:2 3}
.s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}.s4{--c:var(--c4)}.s5{--c:var(--c5)}
.s6{--c:var(--c6)}
.line{fill:none;stroke:var(--c);stroke-width:1.7;stroke-linejoin:round}
.s1 .line{stroke-dasharray:6 3}.s2 .line{stroke-dasharray:2 3}.s3 .line{stroke-dasharray:9 3 2 3}
.s4 .line{stroke-dasharray:4 2}.s5 .line{stroke-dasharray:1 2}
.dot{fill:var(--c);stroke:var(--c);stroke-width:1.3}
.s1 .dot,.s3 .dot,.s5 .dot{fill:transparent}
.s2 .dot{stroke-width:1.6}
.s0 .line{stroke-width:2.4}
.dot:hover,.bar:hover{stroke:var(--ink);stroke-width:2}
.bars{fill:none;stroke:var(--c);stroke-width:1}
.band{fill:var(--c);fill-opacity:.13;stroke:var(--c);stroke-opacity:.35;stroke-width:.7}
.b0{--c:var(--b0)}.b1{--c:var(--b1)}.b2{--c:var(--b2)}.b3{--c:var(--b3)}
.bar{fill:var(--c);stroke:var(--card);stroke-width:.6}
table{border-collapse:collapse;font-size:13.5px;line-height:1.35}
th,td{padding:4px 8px;text-align:right;font-weight:400;white-space:nowrap}
th[scope=row],th[scope=col]:first-child{text-align:left}
thead th{color:var(--quiet);font-size:12.5px}
.scroll.side{margin-top:14px}.side table{width:100%}
.side td,.side tbody th{border-top:1px solid var(--hair)}
.side tbody th{white-space:normal;min-width:9em}
.units h3,.units h4{margin-top:20px}
.lists{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));margin-top:10px}
table.units{width:100%;background:var(--card);border:1px solid var(--hair);border-radius:10px;
border-collapse:separate;border-spacing:0;padding:8px 8px 10px}
table.units caption{text-align:left;font-weight:600;padding:0 0 6px;font-size:15px}
table.units small{font-weight:400;color:var(--quiet)}
table.units tbody th,table.units tbody td{border-top:1px solid var(--hair)}
table.units tbody th{white-space:normal;min-width:7em;font-family:ui-monospace,"SF Mono",Menlo,Consolas,
"DejaVu Sans Mono",monospace;font-size:13px}
[aria-sort]{font-weight:700;color:var(--ink)}
.mark{color:var(--quiet);font-size:.88em}
.special{font:11px/1.4 system-ui,sans-serif;border:1px solid var(--c3);color:var(--c3);border-radius:8px;
padding:0 6px;white-space:nowrap}
.share{display:block;margin-left:auto;width:44px;height:8px;background:var(--b2);border-radius:2px;overflow:hidden}
.share i{display:block;height:100%;background:var(--b0)}
details summary{cursor:pointer;color:var(--link);padding:4px 0}
.scroll{overflow:auto;max-height:70vh;border:1px solid var(--hair);border-radius:10px;background:var(--card);
margin-top:8px}
.full{font-size:12.5px}
.full thead th{position:sticky;top:0;background:var(--soft);z-index:1}
.full .stay{position:sticky;left:0;background:var(--soft);z-index:1}
.full thead th.stay{z-index:2}
.full th.stay+th.stay{left:auto;position:sticky;text-align:left}
.full .pop{text-align:left}
.full .pop .sign{vertical-align:-1px;margin-right:6px}
.full .top>*{border-top:1px solid var(--hair)}
.un{color:var(--quiet);cursor:help;text-decoration:underline dotted}
.facts{display:grid;gap:18px 32px;font-size:14px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr))}
.facts h4{text-transform:capitalize;border-bottom:1px solid var(--hair);padding-bottom:4px;margin-bottom:6px}
.facts dl{display:grid;grid-template-columns:minmax(90px,auto) 1fr;gap:2px 12px;margin:0}
.facts dt{color:var(--quiet)}
.facts dd{margin:0;min-width:0}
code{font:12.5px/1.4 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media (max-width:560px){
main,.page{padding:0 14px}header.page{padding-top:20px}h1{font-size:26px}.lead{font-size:16px}
.tiles{gap:8px 26px}.tiles dd{font-size:20px}
table.units{padding:8px 4px}th,td{padding:4px 5px}table.units tbody th{min-width:5em}
table.units th:last-child,table.units td:last-child{display:none}}
@media print{
body{font-size:9pt;line-height:1.4;background:#fff}header.page{padding-top:0}h1{font-size:18pt}h2{font-size:13pt}
h3{font-size:10.5pt}.lead{font-size:10.5pt;margin:6pt 0}.part{margin-top:14pt}.group{margin-top:10pt}
.tiles{padding:6pt 0}.tiles dd{font-size:14pt}.card{padding:7pt 8pt}.card .figure{font-size:15pt}
.card b{font-size:9pt;margin-bottom:3pt}.card p,.warnings,.facts{font-size:8.5pt}
figcaption{font-size:7.5pt;min-height:44pt}figcaption b{font-size:9pt}figure .legend,code{font-size:7pt}
.chart text{font-size:14px}.chart .name{font-size:12px}
main,.page{max-width:none;padding:0}.contents,details{display:none}
.part.table{display:none}
figure,.card,.group,table.units,.facts section{break-inside:avoid}h2,h3,h4,.legend,.quiet{break-after:avoid}
.panels{grid-template-columns:repeat(3,1fr);gap:8px}.cards{grid-template-columns:repeat(3,1fr);gap:8px}
.lists{grid-template-columns:1fr 1fr;gap:8px}table.units,table.units tbody th{font-size:7.5pt}
.facts{grid-template-columns:repeat(3,1fr);gap:10px 16px}th,td{padding:2px 4px}
.survey{break-before:page}
.bar,.share,.share i,.dot,.band,.card,.warnings{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
""".strip()
