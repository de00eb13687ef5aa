"""Sources of images, sound and any module of the user."""
