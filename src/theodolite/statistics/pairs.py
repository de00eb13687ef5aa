"""Sums over pairs of vectors (x, y) of the same position: all that linear CKA and linear maps need."""

from __future__ import annotations

import torch
from torch import Tensor

SUMS = "sum_x sum_y products squares_x squares_y x_by_square y_by_square square_products".split()


class PairSums:
    """Sums over pairs of rows, about fixed centres a and b: with x - a for x and y - b for y,

    n, sum x, sum y, sum x y^T, sum |x|^2, sum |y|^2, sum x |y|^2, sum y |x|^2 and sum |x|^2 |y|^2.

    All are float64. The centres should be near the means, and must be the same in all parts that are merged, which
    `recentre` can make them.
    Memory: 8 dim_x dim_y bytes. Cost of an update: rows x dim_x x dim_y.

    >>> sums = PairSums(torch.zeros(1), torch.zeros(2))
    >>> sums.update(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sums.n, sums.products.tolist()
    (2, [[2.0, 1.0]])
    """

    def __init__(self, centre_x: Tensor, centre_y: Tensor) -> None:
        self.centre_x, self.centre_y = centre_x.double(), centre_y.double()
        dim_x, dim_y = len(centre_x), len(centre_y)
        self.n = 0
        self.sum_x = self.centre_x.new_zeros(dim_x)
        self.sum_y = self.centre_x.new_zeros(dim_y)
        self.products = self.centre_x.new_zeros(dim_x, dim_y)
        self.squares_x = self.centre_x.new_zeros(())  # sum |x|^2
        self.squares_y = self.centre_x.new_zeros(())
        self.x_by_square = self.centre_x.new_zeros(dim_x)  # sum x |y|^2
        self.y_by_square = self.centre_x.new_zeros(dim_y)
        self.square_products = self.centre_x.new_zeros(())  # sum |x|^2 |y|^2

    def update(self, x: Tensor, y: Tensor) -> None:
        """Add rows (rows, dim_x) and (rows, dim_y), matched one by one."""
        x, y = x.double() - self.centre_x, y.double() - self.centre_y
        squares_x, squares_y = x.square().sum(1), y.square().sum(1)
        self.n += len(x)
        self.sum_x += x.sum(0)
        self.sum_y += y.sum(0)
        self.products += x.T @ y
        self.squares_x += squares_x.sum()
        self.squares_y += squares_y.sum()
        self.x_by_square += squares_y @ x
        self.y_by_square += squares_x @ y
        self.square_products += squares_x @ squares_y

    def merge(self, other: PairSums) -> None:
        """Add the sums of other rows, about the same centres."""
        if not (torch.equal(self.centre_x, other.centre_x) and torch.equal(self.centre_y, other.centre_y)):
            raise ValueError("sums about different centres cannot be merged")
        self.n += other.n
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def recentre(self, centre_x: Tensor, centre_y: Tensor) -> None:
        """Change all sums to other centres, in float64: x becomes x + s, y becomes y + t."""
        s, t = self.centre_x - centre_x.double(), self.centre_y - centre_y.double()
        ss, tt, n = s @ s, t @ t, self.n
        along_x, along_y = s @ self.sum_x, t @ self.sum_y  # sums of s.x and t.y
        squares_x = self.squares_x + 2 * along_x + n * ss
        squares_y = self.squares_y + 2 * along_y + n * tt
        self.square_products = (
            self.square_products
            + 2 * (t @ self.y_by_square + s @ self.x_by_square)
            + 4 * (s @ self.products @ t)
            + tt * (self.squares_x + 2 * along_x)
            + ss * squares_y
        )
        self.x_by_square = self.x_by_square + 2 * (self.products @ t) + tt * self.sum_x + squares_y * s
        self.y_by_square = self.y_by_square + 2 * (s @ self.products) + ss * self.sum_y + squares_x * t
        self.products = (
            self.products + torch.outer(self.sum_x, t) + torch.outer(s, self.sum_y) + n * torch.outer(s, t)
        )
        self.sum_x, self.sum_y = self.sum_x + n * s, self.sum_y + n * t
        self.squares_x, self.squares_y = squares_x, squares_y
        self.centre_x, self.centre_y = centre_x.double(), centre_y.double()

    def state(self) -> dict[str, Tensor]:
        """Return n and the sums, without the centres."""
        return {"n": torch.tensor(self.n), **{name: getattr(self, name) for name in SUMS}}

    def load(self, state: dict[str, Tensor]) -> None:
        """Replace n and the sums by those of a state."""
        self.n = int(state["n"])
        for name in SUMS:
            setattr(self, name, state[name])

    def mean_x(self) -> Tensor:
        """Return the mean of x. (dim_x,)"""
        return self.centre_x + self.sum_x / self.n

    def mean_y(self) -> Tensor:
        """Return the mean of y. (dim_y,)"""
        return self.centre_y + self.sum_y / self.n

    def covariance(self, mean_x: Tensor | None = None, mean_y: Tensor | None = None) -> Tensor:
        """Return the mean of (x - mean_x)(y - mean_y)^T, by default about the own means. (dim_x, dim_y)"""
        own_x, own_y = self.sum_x / self.n, self.sum_y / self.n
        shift_x = own_x if mean_x is None else mean_x - self.centre_x
        shift_y = own_y if mean_y is None else mean_y - self.centre_y
        # About the own means first: their products would cancel.
        about_own = self.products / self.n - torch.outer(own_x, own_y)
        return about_own + torch.outer(own_x - shift_x, own_y - shift_y)

    def variance_y(self) -> float:
        """Return the mean of |y - mean of y|^2."""
        return float(self.squares_y / self.n - (self.sum_y / self.n).square().sum())
