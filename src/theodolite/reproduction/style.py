"""The index page's looks: two themes by the reader's preference; pictures stay on white in both."""

CSS = """
:root{color-scheme:light dark;--paper:#fdfcf9;--card:#fff;--ink:#1d2226;--quiet:#5d666d;--hair:#e2dfd8;
--link:#00598c;--mark:#d55e00}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14181b;--card:#1b2024;--ink:#e7e9ea;
--quiet:#9aa5ad;--hair:#30383e;--link:#7cc4f0;--mark:#f08c3c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1060px;margin:0 auto;padding:0 24px}
header{padding-top:36px}
footer{color:var(--quiet);font-size:13px;padding-top:40px;padding-bottom:40px}
.kicker{display:flex;align-items:center;gap:8px;margin:0;color:var(--quiet);font-size:14px}
.brand{width:22px;height:22px;fill:none;stroke:var(--mark);stroke-width:1.6;stroke-linecap:round}
h1{font-size:34px;line-height:1.2;margin:6px 0 10px;letter-spacing:-.015em}
h2{font-size:24px;line-height:1.25;margin:40px 0 12px}
h3{font-size:16px;font-weight:400;margin:0 0 8px}
p{margin:0 0 8px}
a{color:var(--link)}
nav ul{list-style:none;margin:0;padding:10px 0;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:14px;
border:solid var(--hair);border-width:1px 0}
.dim{color:var(--quiet)}
figure{margin:0 0 20px;padding:14px 16px 10px;background:var(--card);border:1px solid var(--hair);
border-radius:10px;scroll-margin-top:12px}
figure img{display:block;max-width:100%;height:auto;margin:0 auto;padding:8px;background:#fff;border-radius:6px}
figcaption{font-size:14px;line-height:1.5;color:var(--quiet);margin-top:8px}
summary{cursor:pointer;color:var(--link)}
.note{font-size:14px;margin:8px 0 0;border-left:3px solid var(--mark);padding-left:10px}
.files{margin:4px 0 0}
dl{margin:0}
dl div{padding:8px 0;border-top:1px solid var(--hair)}
dd{margin:2px 0 0;color:var(--quiet);font-size:15px}
@media print{figure{break-inside:avoid}nav,details,.files{display:none}}
""".strip()
