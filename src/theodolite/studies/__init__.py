"""What the papers do: from a survey's tables to finished tables, ready to draw. Nothing here draws."""
