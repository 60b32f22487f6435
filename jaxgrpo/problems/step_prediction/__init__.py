"""What does a program print on its way? Small generated functions with anchors."""
