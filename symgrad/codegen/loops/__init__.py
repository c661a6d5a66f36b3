"""Loop IR, the loop language: what a kernel can say, its text, verifier and interpreter."""
