"""Images to vectors: patches as the tokens of an encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.kernels import Dropout
from regard.layers.part import part
from regard.layout import Layout, Side


@part
class Patches:
    """A vector for each patch of an image, after one that stands for the whole image (Dosovitskiy et al. 2021).

    image, patch: (height, width) in pixels. A learned table adds a vector for each place of that image's grid of patches;
    for images of other shapes it is resized (bicubic), the row of the whole image left as it is.
    """

    image: tuple[int, int]
    patch: tuple[int, int]
    channels: int = 3
    dropout: float = 0.0

    def build(self, d_model: int) -> PatchEmbeddings:
        return PatchEmbeddings(self, d_model)


class PatchEmbeddings(nn.Module):
    """The module of Patches."""

    limit = None

    def __init__(self, its: Patches, d_model: int) -> None:
        super().__init__()
        self.patch, self.channels = its.patch, its.channels
        self.grid = its.image[0] // its.patch[0], its.image[1] // its.patch[1]
        if not all(self.grid):
            raise ValueError(f"an image of {its.image} pixels has no patch of {its.patch}")
        self.whole = nn.Parameter(torch.empty(1, 1, d_model))
        self.table = nn.Parameter(torch.empty(1, 1 + self.grid[0] * self.grid[1], d_model))
        for tensor in (self.whole, self.table):
            nn.init.normal_(tensor, std=0.02)
        self.project = nn.Conv2d(its.channels, d_model, its.patch, its.patch)
        self.dropout = Dropout(its.dropout)

    def shape(self, pixels: Tensor) -> tuple[int, int]:
        """Rows and columns of patches of images Float[B C H W]; pixels beyond the last whole patch are not seen.
        ValueError if they are no such images."""
        if pixels.dim() != 4 or pixels.shape[1] != self.channels:
            raise ValueError(f"pixels of shape {list(pixels.shape)}, but this model reads [images, {self.channels}, H, W]")
        rows, columns = pixels.shape[2] // self.patch[0], pixels.shape[3] // self.patch[1]
        if not rows or not columns:
            raise ValueError(f"images of {pixels.shape[2]}×{pixels.shape[3]} pixels are smaller than one patch {self.patch}")
        return rows, columns

    def place(self, pixels: Tensor, pad: int | None = None, side: Side = "both") -> Layout:
        """Where the vectors stand: the whole image's first, then the patches row by row; nothing is padding."""
        rows, columns = self.shape(pixels)
        return Layout.unpadded(1 + rows * columns, device=pixels.device)

    def places(self, rows: int, columns: int) -> Tensor:
        """The table for such a grid: Float[1 1+rows·columns D]. The stored one itself where the grid is the described."""
        if (rows, columns) == self.grid:
            return self.table
        whole, grid = self.table[:, :1], self.table[:, 1:].unflatten(1, self.grid).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([whole, grid.flatten(2).transpose(1, 2)], 1)

    def forward(self, pixels: Tensor, layout: Layout, segments: Tensor | None = None) -> Tensor:
        """Float[B C H W] -> Float[B 1+patches D]. Pixels are taken in the weights' number type."""
        rows, columns = self.shape(pixels)
        x = self.project(pixels.to(self.project.weight.dtype)).flatten(2).transpose(1, 2)
        x = torch.cat([self.whole.expand(len(x), -1, -1), x], 1)
        return self.dropout(x + self.places(rows, columns))
