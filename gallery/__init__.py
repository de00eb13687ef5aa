"""The gallery of the documentation: the pictures of reproductions, reduced in size, on one page per paper."""
