"""The gallery: a reproduction's pictures made small, and a page of them, for the documentation."""
