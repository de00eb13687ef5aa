"""Formulas in LaTeX, by id, for pages that typeset them. The definition in words is in @formula."""

from __future__ import annotations

LATEX: dict[str, str] = {
    # Norms and variance
    "qmv/all": r"Q = M + V,\qquad V = V_W + V_B,\qquad V_W = \sum_t p_t\,V(X_t),\qquad "
    r"V_B = \sum_t p_t\,\lVert \mu_t - \mu\rVert^2",
    "qmv/unit": r"Q(X_t) = \mathbb{E}\,\lVert x\rVert^2,\qquad M(X_t) = \lVert\mathbb{E}\,x\rVert^2,\qquad "
    r"V(X_t) = \mathbb{E}\,\lVert x - \mathbb{E}\,x\rVert^2,\qquad Q = M + V",
    "qmv/unit-unbiased": r"V_u = \frac{n}{n-1}\,V,\qquad M_u = M - \frac{V}{n-1}",
    "q-cv/frequent": r"\mathrm{CV} = \frac{\mathrm{sd}_t\,Q(X_t)}{\mathrm{mean}_t\,Q(X_t)}",
    "tradeoff/v-on-m": r"V(X_t) \approx a + b\,M(X_t),\qquad "
    r"R^2 = 1 - \frac{\sum_t (V(X_t) - a - b\,M(X_t))^2}{\sum_t (V(X_t) - \bar{V})^2}",
    "coordinates/moments": r"q_i = \mathbb{E}\,x_i^2 = \mu_i^2 + v_i,\qquad \mu_i = \mathbb{E}\,x_i,\qquad "
    r"v_i = \mathbb{E}\,(x_i - \mu_i)^2",
    "coordinates/between": r"v_{B,i} = \sum_t p_t\,(\mu_i(X_t) - \mu_i)^2",
    "coordinates/within": r"v_{W,i} = \sum_t p_t\,v_i(X_t) = v_i - v_{B,i}",
    # Anisotropy
    "mean-cosine/all-pairs": r"\frac{1}{n(n-1)} \sum_{i \neq j} \cos(x_i, x_j) = "
    r"\frac{\lVert S\rVert^2 - n}{n(n-1)},\qquad S = \sum_i \frac{x_i}{\lVert x_i\rVert}",
    "mean-cosine/sample": r"\frac{1}{n(n-1)} \sum_{i \neq j} \cos(x_i, x_j)",
    "mean-cosine/sampled-pairs": r"\frac{1}{1000} \sum_{k=1}^{1000} \cos(x_{i_k}, x_{j_k}),\qquad i_k \neq j_k",
    "cosine-share/coordinate": r"\frac{S_i^2 - \sum u_i^2}{\sum_j (S_j^2 - \sum u_j^2)},\qquad "
    r"u = \frac{x}{\lVert x\rVert},\quad S = \sum u",
    "anisotropy-svd/centred": r"\frac{s_1^2}{\sum_i s_i^2} = \frac{\lambda_1}{\sum_i \lambda_i}",
    "anisotropy-svd/batch": r"\frac{s_1^2}{\sum_i s_i^2}",
    "anisotropy-svd/shuffled-batches": r"\frac{s_1^2}{\sum_i s_i^2}",
    "isotropy/partition": r"\frac{\min_a Z(a)}{\max_a Z(a)},\qquad Z(a) = \sum_x e^{a \cdot x}",
    "iso-score/covariance": r"\frac{\mathrm{PR} - 1}{d - 1},\qquad "
    r"\mathrm{PR} = \frac{(\sum_i \lambda_i)^2}{\sum_i \lambda_i^2}",
    # Spectra
    "spectrum/shares": r"\frac{\lambda_k}{\sum_i \lambda_i},\qquad "
    r"\frac{\sum_{i \leq k} \lambda_i}{\sum_i \lambda_i}",
    "participation-ratio/covariance": r"\mathrm{PR} = \frac{(\sum_i \lambda_i)^2}{\sum_i \lambda_i^2}",
    "effective-rank/eigenvalues": r"\exp\left(-\sum_i p_i \log p_i\right),\qquad "
    r"p_i = \frac{\lambda_i}{\sum_j \lambda_j}",
    "effective-rank/singular-values": r"\exp\left(-\sum_i p_i \log p_i\right),\qquad "
    r"p_i = \frac{s_i}{\sum_j s_j},\quad s_i = \sqrt{\lambda_i}",
    "stable-rank/uncentred": r"\frac{\lVert X\rVert_F^2}{\lVert X\rVert_2^2}",
    "pca-dimension/share": r"\min\left\{ k : \sum_{i \leq k} \lambda_i \geq c \sum_i \lambda_i \right\},\qquad "
    r"c = 0.90,\ 0.95,\ 0.99",
    # Intrinsic dimension
    "twonn/keep90": r"-\log(1 - F(\mu)) = d\,\log \mu,\qquad \mu = \frac{r_2}{r_1},\quad "
    r"F(\mu_{(i)}) = \frac{i}{n}",
    "twonn/ml": r"\hat{d} = \frac{n - 1}{\sum_i \log \mu_i},\qquad \mu_i = \frac{r_2(x_i)}{r_1(x_i)}",
    "gride/n1-2n1": r"\mu = \frac{r_{2 n_1}}{r_{n_1}},\qquad \mu^{-d} \sim \mathrm{Beta}(n_1, n_1)",
    "mle/k20": r"\hat{d}^{-1} = \frac{1}{n} \sum_i \frac{1}{k - 1} \sum_{j < k} "
    r"\log \frac{r_k(x_i)}{r_j(x_i)},\qquad k = 20",
    "hubness/skew-k10": r"\frac{\mathbb{E}\,(N - \mathbb{E}\,N)^3}{\mathrm{sd}(N)^3}",
    # Contextuality
    "self-similarity/unit": r"\frac{1}{n(n-1)} \sum_{i \neq j} \cos(x_i, x_j),\qquad x_i, x_j \in X_t",
    "intra-sentence-similarity/windows": r"\frac{1}{\lvert w\rvert} \sum_{x \in w} \cos(x, \bar{x}_w),\qquad "
    r"\bar{x}_w = \frac{1}{\lvert w\rvert} \sum_{x \in w} x",
    "mev/centred": r"\frac{s_1^2}{\sum_i s_i^2}\quad\mathrm{of}\quad X_t - \mu_t",
    # Layer scores
    "rankme/uncentred": r"\exp\left(-\sum_i p_i \log p_i\right),\qquad "
    r"p_i = \frac{s_i}{\sum_j s_j},\quad s_i\ \mathrm{of}\ X",
    "alpha-req/ranks-4-100": r"\lambda_i \propto i^{-\alpha},\qquad 4 \leq i \leq 100",
    "lidar/units": r"\exp\left(-\sum_i p_i \log p_i\right),\qquad "
    r"p_i \propto \lambda_i\left(W^{-1/2}\, B\, W^{-1/2}\right)",
    "prompt-entropy/gram": r"-\frac{\sum_i p_i \log p_i}{\log \min(n, d)},\qquad "
    r"p_i = \frac{\lambda_i(X X^{\top})}{\mathrm{tr}\, X X^{\top}}",
    "curvature/steps": r"\angle\left(x_{k+1} - x_k,\ x_{k+2} - x_{k+1}\right)",
    # Bridge
    "cka/debiased": r"\frac{\mathrm{HSIC}(X, Y)}{\sqrt{\mathrm{HSIC}(X, X)\,\mathrm{HSIC}(Y, Y)}}",
    "cka/biased": r"\frac{\lVert \mathrm{Cov}(X, Y)\rVert^2}"
    r"{\lVert \mathrm{Cov}(X, X)\rVert\,\lVert \mathrm{Cov}(Y, Y)\rVert}",
    # Attention and one block
    "attention/sharpness": r"\max_j w_j,\qquad H = -\sum_j w_j \log w_j,\qquad \frac{H}{\log(\mathrm{entries})}",
    "attention/row-weights": r"w = \mathrm{softmax}\left(\frac{q\,k^{\top}}{\sqrt{d_k}}\right)",
    "attention/expected-projection": r"\frac{\lVert \mathbb{E}\,q - (W\,\mathbb{E}\,x + b)\rVert}"
    r"{\lVert \mathbb{E}\,q\rVert}",
    "fixed-point/bias-norm": r"\mathbb{E}\,\lVert T(x + b)\rVert = \mathbb{E}\,\lVert x + b\rVert,\qquad "
    r"\lVert b\rVert = N",
    "fixed-point/post-ln": r"N = \sqrt{\lVert\gamma\rVert^2 + \lVert\beta\rVert^2 - \mathbb{E}\,\lVert x\rVert^2}",
    # Laboratories
    "pair/cosine": r"\frac{x \cdot y}{\lVert x\rVert\,\lVert y\rVert}",
    "pair/distance": r"\lVert x - y\rVert",
    "pair/dot": r"x \cdot y",
    "pair/largest-difference": r"\max_i \lvert x_i - y_i\rvert",
    "positions/sinusoid": r"\sin\left(\frac{n}{10000^{k/d}}\right)\ (k\ \mathrm{even}),\qquad "
    r"\cos\left(\frac{n}{10000^{(k-1)/d}}\right)\ (k\ \mathrm{odd})",
    "positions/rotary-similarity": r"\frac{1}{m} \sum_{j=1}^{m} \cos(k\,\theta_j)",
    "periodicity/fisher-g": r"g = \frac{\max_j I_j}{\sum_j I_j},\qquad "
    r"P(g > x) = \sum_{j \geq 1} (-1)^{j-1} \binom{m}{j} (1 - j x)^{m-1}",
    "untrained/foretold-share": r"\frac{\lVert P x_i\rVert^2}{\lVert x_i\rVert^2}",
    "path/step": r"\lVert y - x\rVert",
    "path/radial": r"\lVert y\rVert - \lVert x\rVert",
    "path/tangential": r"\sqrt{\lVert x\rVert\,\lVert y\rVert}\;\left\lVert \frac{x}{\lVert x\rVert} - "
    r"\frac{y}{\lVert y\rVert} \right\rVert",
    "path/angle": r"2\,\mathrm{atan2}(\lVert u - v\rVert, \lVert u + v\rVert),\qquad "
    r"u = \frac{x}{\lVert x\rVert},\quad v = \frac{y}{\lVert y\rVert}",
    "silhouette/mean": r"\frac{b - a}{\max(a, b)}",
    "energy-distance": r"2\,\mathbb{E}\,\lVert x - y\rVert - \mathbb{E}\,\lVert x - x'\rVert - "
    r"\mathbb{E}\,\lVert y - y'\rVert",
    "linking-number/gauss": r"\frac{1}{4\pi} \oint \oint "
    r"\frac{(a - b) \cdot (\mathrm{d}a \times \mathrm{d}b)}{\lVert a - b\rVert^3}",
}
