"""Sums over pairs of vectors (x, y) of the same position: all that linear CKA and linear maps need."""

from __future__ import annotations

import torch
from torch import Tensor


class PairSums:
    """Sums over pairs of rows, about fixed centres a and b: with x - a for x and y - b for y,

    n, sum x, sum y, sum x y^T, sum |x|^2, sum |y|^2, sum x |y|^2, sum y |x|^2 and sum |x|^2 |y|^2.

    All are float64. The centres should be near the means, and must be the same in all parts that are merged.
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
        for name in (
            "sum_x",
            "sum_y",
            "products",
            "squares_x",
            "squares_y",
            "x_by_square",
            "y_by_square",
            "square_products",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))

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
