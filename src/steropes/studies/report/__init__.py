"""The parts of a page of results: its frame, tables and pictures; nothing here knows of a study.

Pages hold everything, load nothing and run no script. Pictures are SVG made of text, drawn twice
(for wide and for narrow screens), in colours that follow the reader's choice of light or dark.
"""
