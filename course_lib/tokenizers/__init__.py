"""Text to ids and back: BPE, byte-level BPE, WordPiece and Unigram, in pure Python."""
