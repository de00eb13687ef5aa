"""Full references of the works that formulas cite, found by the words in which citations name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """One work: its key, a regular expression that matches it in a citation, and the full reference."""

    key: str
    pattern: str
    full: str


REFERENCES = (
    Reference(
        "agrawal-2022",
        r"Agrawal et al\. 2022",
        "Kumar Krishna Agrawal, Arnab Kumar Mondal, Arna Ghosh and Blake A. Richards. alpha-ReQ: Assessing "
        "representation quality in self-supervised learning by measuring eigenspectrum decay. NeurIPS 2022.",
    ),
    Reference(
        "alain-2016",
        "Alain and Bengio 2016",
        "Guillaume Alain and Yoshua Bengio. Understanding intermediate layers using linear classifier probes. "
        "arXiv:1610.01644, 2016.",
    ),
    Reference(
        "anderson-2001",
        "Anderson 2001",
        "Marti J. Anderson. A new method for non-parametric multivariate analysis of variance. Austral "
        "Ecology 26, 2001.",
    ),
    Reference(
        "arora-2016",
        r"Arora et al\. 2016",
        "Sanjeev Arora, Yuanzhi Li, Yingyu Liang, Tengyu Ma and Andrej Risteski. A latent variable model "
        "approach to PMI-based word embeddings. TACL 4, 2016.",
    ),
    Reference(
        "caliskan-2017",
        "Caliskan, Bryson and Narayanan 2017",
        "Aylin Caliskan, Joanna J. Bryson and Arvind Narayanan. Semantics derived automatically from language "
        "corpora contain human-like biases. Science 356, 2017. arXiv:1608.07187.",
    ),
    Reference(
        "chen-2010",
        "Chen and Qin, A two-sample test for high-dimensional data, 2010",
        "Song Xi Chen and Ying-Li Qin. A two-sample test for high-dimensional data with applications to gene-set "
        "testing. Annals of Statistics 38, 2010.",
    ),
    Reference(
        "cochran-1977",
        "Cochran 1977",
        "William G. Cochran. Sampling Techniques. Third edition, Wiley, 1977.",
    ),
    Reference(
        "denti-2022",
        r"Denti et al\. 2022",
        "Francesco Denti, Diego Doimo, Alessandro Laio and Antonietta Mira. The generalized ratios intrinsic "
        "dimension estimator. Scientific Reports 12, 2022. arXiv:2104.13832.",
    ),
    Reference(
        "ethayarajh-2019",
        "Ethayarajh 2019",
        "Kawin Ethayarajh. How contextual are contextualized word representations? Comparing the geometry of "
        "BERT, ELMo, and GPT-2 embeddings. EMNLP-IJCNLP 2019. arXiv:1909.00512.",
    ),
    Reference(
        "facco-2017",
        r"Facco et al\. 2017",
        "Elena Facco, Maria d'Errico, Alex Rodriguez and Alessandro Laio. Estimating the intrinsic dimension "
        "of datasets by a minimal neighborhood information. Scientific Reports 7, 2017. arXiv:1803.06992.",
    ),
    Reference(
        "fieller-1957",
        "Fieller, Hartley and Pearson 1957",
        "E. C. Fieller, H. O. Hartley and E. S. Pearson. Tests for rank correlation coefficients. I. "
        "Biometrika 44, 1957.",
    ),
    Reference(
        "fisher-1929",
        "Fisher 1929",
        "Ronald A. Fisher. Tests of significance in harmonic analysis. Proceedings of the Royal Society A "
        "125, 1929.",
    ),
    Reference(
        "fisher-1935",
        "Fisher, The Design of Experiments, 1935",
        "Ronald A. Fisher. The Design of Experiments. Oliver and Boyd, 1935.",
    ),
    Reference(
        "fuller-1987",
        "Fuller 1987",
        "Wayne A. Fuller. Measurement Error Models. Wiley, 1987.",
    ),
    Reference(
        "gao-2017",
        r"Gao et al\. 2017",
        "Peiran Gao, Eric Trautmann, Byron Yu, Gopal Santhanam, Stephen Ryu, Krishna Shenoy and Surya "
        "Ganguli. A theory of multineuronal dimensionality, dynamics and measurement. bioRxiv 214262, 2017.",
    ),
    Reference(
        "garrido-2023",
        r"Garrido et al\. 2023",
        "Quentin Garrido, Randall Balestriero, Laurent Najman and Yann LeCun. RankMe: Assessing the "
        "downstream performance of pretrained self-supervised representations by their rank. ICML 2023. "
        "arXiv:2210.02885.",
    ),
    Reference(
        "gauss-1833",
        "Gauss 1833",
        "Carl Friedrich Gauss. Note of 22 January 1833, in Zur mathematischen Theorie der electrodynamischen "
        "Wirkungen. Werke V, Göttingen.",
    ),
    Reference(
        "godey-2023",
        r"Godey et al\. 2023",
        "Nathan Godey, Éric de la Clergerie and Benoît Sagot. Is anisotropy inherent to Transformers? ACL "
        "Student Research Workshop 2023. arXiv:2306.07656.",
    ),
    Reference(
        "henze-1988",
        "Henze 1988",
        "Norbert Henze. A multivariate two-sample test based on the number of nearest neighbor type coincidences. "
        "Annals of Statistics 16, 1988.",
    ),
    Reference(
        "hewitt-2019",
        "Hewitt and Liang 2019",
        "John Hewitt and Percy Liang. Designing and interpreting probes with control tasks. EMNLP-IJCNLP "
        "2019. arXiv:1909.03368.",
    ),
    Reference(
        "hoeffding-1948",
        "Hoeffding 1948",
        "Wassily Hoeffding. A class of statistics with asymptotically normal distribution. Annals of "
        "Mathematical Statistics 19, 1948.",
    ),
    Reference(
        "holm-1979",
        "Holm, A simple sequentially rejective multiple test procedure, 1979",
        "Sture Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of "
        "Statistics 6, 1979.",
    ),
    Reference(
        "hosseini-2023",
        "Hosseini and Fedorenko 2023",
        "Eghbal A. Hosseini and Evelina Fedorenko. Large language models implicitly learn to straighten "
        "neural sentence trajectories to construct a predictive representation of natural language. NeurIPS "
        "2023.",
    ),
    Reference(
        "hotelling-1931",
        "Hotelling 1931",
        "Harold Hotelling. The generalization of Student's ratio. Annals of Mathematical Statistics 2, 1931.",
    ),
    Reference(
        "hotelling-1933",
        "Hotelling 1933",
        "Harold Hotelling. Analysis of a complex of statistical variables into principal components. Journal "
        "of Educational Psychology 24, 1933.",
    ),
    Reference(
        "huh-2024",
        r"Huh et al\. 2024",
        "Minyoung Huh, Brian Cheung, Tongzhou Wang and Phillip Isola. The platonic representation hypothesis. "
        "ICML 2024. arXiv:2405.07987.",
    ),
    Reference(
        "jolliffe-2002",
        "Jolliffe 2002",
        "Ian T. Jolliffe. Principal Component Analysis, second edition. Springer, 2002.",
    ),
    Reference(
        "kahan-2006",
        "Kahan 2006",
        "William Kahan. How futile are mindless assessments of roundoff in floating-point computation? "
        "University of California, Berkeley, 2006.",
    ),
    Reference(
        "kornblith-2019",
        r"Kornblith et al\. 2019",
        "Simon Kornblith, Mohammad Norouzi, Honglak Lee and Geoffrey Hinton. Similarity of neural network "
        "representations revisited. ICML 2019. arXiv:1905.00414.",
    ),
    Reference(
        "kovaleva-2021",
        r"Kovaleva et al\. 2021",
        "Olga Kovaleva, Saurabh Kulshreshtha, Anna Rogers and Anna Rumshisky. BERT Busters: outlier "
        "dimensions that disrupt Transformers. Findings of ACL-IJCNLP 2021. arXiv:2105.06990.",
    ),
    Reference(
        "kreiss-2003",
        "Kreiss and Paparoditis 2003",
        "Jens-Peter Kreiss and Efstathios Paparoditis. Autoregressive-aided periodogram bootstrap for time "
        "series. Annals of Statistics 31, 2003.",
    ),
    Reference(
        "levina-2004",
        "Levina and Bickel 2004",
        "Elizaveta Levina and Peter J. Bickel. Maximum likelihood estimation of intrinsic dimension. NIPS 2004.",
    ),
    Reference(
        "li-2012",
        "Li and Chen, Two sample tests for high-dimensional covariance matrices, 2012",
        "Jun Li and Song Xi Chen. Two sample tests for high-dimensional covariance matrices. Annals of Statistics "
        "40, 2012.",
    ),
    Reference(
        "luisto-2024",
        r"Luisto 2024(?: \(bert-spaces\))?|bert-spaces",
        "Rami Luisto. A study on the embedding spaces of the BERT language model. Master's thesis, University "
        "of Jyväskylä, 2024.",
    ),
    Reference(
        "mackay-2005",
        "MacKay and Ghahramani 2005",
        "David J. C. MacKay and Zoubin Ghahramani. Comments on 'Maximum likelihood estimation of intrinsic "
        "dimension' by E. Levina and P. Bickel. Note, 2005.",
    ),
    Reference(
        "mann-1996",
        "Mann and Lees 1996",
        "Michael E. Mann and Jonathan M. Lees. Robust estimation of background noise and signal detection in "
        "climatic time series. Climatic Change 33, 1996.",
    ),
    Reference(
        "mann-1947",
        "Mann and Whitney 1947",
        "Henry B. Mann and Donald R. Whitney. On a test of whether one of two random variables is "
        "stochastically larger than the other. Annals of Mathematical Statistics 18, 1947.",
    ),
    Reference(
        "mantel-1967",
        "Mantel 1967",
        "Nathan Mantel. The detection of disease clustering and a generalized regression approach. Cancer "
        "Research 27, 1967.",
    ),
    Reference(
        "may-2019",
        r"May et al\. 2019",
        "Chandler May, Alex Wang, Shikha Bordia, Samuel R. Bowman and Rachel Rudinger. On measuring social biases "
        "in sentence encoders. NAACL-HLT 2019. arXiv:1903.10561.",
    ),
    Reference(
        "mu-2018",
        "Mu and Viswanath 2018",
        "Jiaqi Mu and Pramod Viswanath. All-but-the-Top: simple and effective postprocessing for word "
        "representations. ICLR 2018. arXiv:1702.01417 (there with Suma Bhat).",
    ),
    Reference(
        "nguyen-2021",
        r"Nguyen et al\. 2021",
        "Thao Nguyen, Maithra Raghu and Simon Kornblith. Do wide and deep networks learn the same things? ICLR "
        "2021. arXiv:2010.15327.",
    ),
    Reference(
        "ojala-2010",
        "Ojala and Garriga, Permutation tests for studying classifier performance, 2010",
        "Markus Ojala and Gemma C. Garriga. Permutation tests for studying classifier performance. JMLR 11, 2010.",
    ),
    Reference(
        "phipson-2010",
        "Phipson and Smyth 2010",
        "Belinda Phipson and Gordon K. Smyth. Permutation p-values should never be zero: calculating exact "
        "p-values when permutations are randomly drawn. Statistical Applications in Genetics and Molecular "
        "Biology 9, 2010.",
    ),
    Reference(
        "quenouille-1956",
        "Quenouille 1956",
        "Maurice H. Quenouille. Notes on bias in estimation. Biometrika 43, 1956.",
    ),
    Reference(
        "radovanovic-2010",
        r"Radovanovic et al\. 2010",
        "Miloš Radovanović, Alexandros Nanopoulos and Mirjana Ivanović. Hubs in space: popular nearest "
        "neighbors in high-dimensional data. JMLR 11, 2010.",
    ),
    Reference(
        "razzhigaev-2024",
        r"Razzhigaev et al\. 2024",
        "Anton Razzhigaev, Matvey Mikhalchuk, Elizaveta Goncharova, Ivan Oseledets, Denis Dimitrov and Andrey "
        "Kuznetsov. The shape of learning: anisotropy and intrinsic dimensions in transformer-based models. "
        "Findings of EACL 2024. arXiv:2311.05928.",
    ),
    Reference(
        "rousseeuw-1987",
        "Rousseeuw 1987",
        "Peter J. Rousseeuw. Silhouettes: a graphical aid to the interpretation and validation of cluster "
        "analysis. Journal of Computational and Applied Mathematics 20, 1987.",
    ),
    Reference(
        "roy-2007",
        "Roy and Vetterli 2007",
        "Olivier Roy and Martin Vetterli. The effective rank: a measure of effective dimensionality. EUSIPCO "
        "2007.",
    ),
    Reference(
        "rudelson-2007",
        "Rudelson and Vershynin 2007",
        "Mark Rudelson and Roman Vershynin. Sampling from large matrices: an approach through geometric "
        "functional analysis. Journal of the ACM 54, 2007.",
    ),
    Reference(
        "rudman-2022",
        r"Rudman et al\. 2022",
        "William Rudman, Nate Gillman, Taylor Rayne and Carsten Eickhoff. IsoScore: measuring the uniformity "
        "of embedding space utilization. Findings of ACL 2022. arXiv:2108.07344.",
    ),
    Reference(
        "schilling-1986",
        "Schilling 1986",
        "Mark F. Schilling. Multivariate two-sample tests based on nearest neighbors. Journal of the American "
        "Statistical Association 81, 1986.",
    ),
    Reference(
        "schonemann-1966",
        "Schönemann 1966",
        "Peter H. Schönemann. A generalized solution of the orthogonal Procrustes problem. Psychometrika 31, "
        "1966.",
    ),
    Reference(
        "sen-1975",
        "Sen and Srivastava 1975",
        "Ashish Sen and Muni S. Srivastava. On tests for detecting change in mean. Annals of Statistics 3, 1975.",
    ),
    Reference(
        "skean-2025",
        r"Skean et al\. 2025",
        "Oscar Skean, Md Rifat Arefin, Dan Zhao, Niket Patel, Jalal Naghiyev, Yann LeCun and Ravid "
        "Shwartz-Ziv. Layer by Layer: Uncovering hidden representations in language models. ICML 2025. "
        "arXiv:2502.02013.",
    ),
    Reference(
        "song-2012",
        r"Song et al\. 2012",
        "Le Song, Alex Smola, Arthur Gretton, Justin Bedo and Karsten Borgwardt. Feature selection via dependence "
        "maximization. JMLR 13, 2012.",
    ),
    Reference(
        "spearman-1904",
        "Spearman's correction for attenuation, 1904",
        "Charles Spearman. The proof and measurement of association between two things. American Journal of "
        "Psychology 15, 1904.",
    ),
    Reference(
        "su-2021-roformer",
        r"Su et al\. 2021, RoFormer",
        "Jianlin Su, Yu Lu, Shengfeng Pan, Ahmed Murtadha, Bo Wen and Yunfeng Liu. RoFormer: enhanced "
        "Transformer with rotary position embedding. arXiv:2104.09864, 2021.",
    ),
    Reference(
        "su-2021-whitening",
        r"Su et al\. 2021, Whitening",
        "Jianlin Su, Jiarun Cao, Weijie Liu and Yangyiwen Ou. Whitening sentence representations for better "
        "semantics and faster retrieval. arXiv:2103.15316, 2021.",
    ),
    Reference(
        "stringer-2019",
        r"Stringer et al\.'s \(2019\)",
        "Carsen Stringer, Marius Pachitariu, Nicholas Steinmetz, Matteo Carandini and Kenneth D. Harris. "
        "High-dimensional geometry of population responses in visual cortex. Nature 571, 2019.",
    ),
    Reference(
        "szekely-2004",
        "Szekely and Rizzo, Testing for equal distributions in high dimension, 2004",
        "Gábor J. Székely and Maria L. Rizzo. Testing for equal distributions in high dimension. InterStat, "
        "November 2004, no. 5.",
    ),
    Reference(
        "thilak-2024",
        r"Thilak et al\. 2024",
        "Vimal Thilak, Chen Huang, Omid Saremi, Laurent Dinh, Hanlin Goh, Preetum Nakkiran, Joshua M. "
        "Susskind and Etai Littwin. LiDAR: Sensing linear probing performance in joint embedding SSL "
        "architectures. ICLR 2024. arXiv:2312.04000.",
    ),
    Reference(
        "timkey-2021",
        "Timkey and van Schijndel 2021",
        "William Timkey and Marten van Schijndel. All bark and no bite: rogue dimensions in transformer "
        "language models obscure representational quality. EMNLP 2021. arXiv:2109.04404.",
    ),
    Reference(
        "tukey-1958",
        "Tukey 1958",
        "John W. Tukey. Bias and confidence in not-quite large samples (abstract). Annals of Mathematical "
        "Statistics 29, 1958.",
    ),
    Reference(
        "vaswani-2017",
        r"Vaswani et al\. 2017",
        "Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz "
        "Kaiser and Illia Polosukhin. Attention is all you need. NIPS 2017. arXiv:1706.03762.",
    ),
    Reference(
        "westfall-1993",
        "Westfall and Young, Resampling-based multiple testing, 1993",
        "Peter H. Westfall and S. Stanley Young. Resampling-Based Multiple Testing. Wiley, 1993.",
    ),
    Reference(
        "xiao-2024",
        r"Xiao et al\. 2024",
        "Guangxuan Xiao, Yuandong Tian, Beidi Chen, Song Han and Mike Lewis. Efficient streaming language models "
        "with attention sinks. ICLR 2024. arXiv:2309.17453.",
    ),
    Reference(
        "yamagiwa-2024",
        "Yamagiwa and Shimodaira 2024",
        "Hiroaki Yamagiwa and Hidetoshi Shimodaira. Norm of mean contextualized embeddings determines their "
        "variance. COLING 2025. arXiv:2409.11253, 2024.",
    ),
)
OUR_OWN = ("Theodolite", "the columns of these names")
"""How a citation begins that names no other work, or names one after our own."""


def find_references(citation: str) -> Sequence[tuple[Reference, str]]:
    """Return the works that a citation names, in order, each with the matching words.

    >>> found = find_references("Mu and Viswanath 2018, All-but-the-Top; after Fisher 1929")
    >>> [(work.key, words) for work, words in found]
    [('mu-2018', 'Mu and Viswanath 2018'), ('fisher-1929', 'Fisher 1929')]
    """
    found = [
        (match.start(), work, match[0]) for work in REFERENCES if (match := re.search(work.pattern, citation))
    ]
    return [(work, words) for _, work, words in sorted(found, key=lambda each: each[0])]
