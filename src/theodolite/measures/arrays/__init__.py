"""The measures as functions of plain arrays, NumPy or torch: what `theodolite.measures` offers to users."""
