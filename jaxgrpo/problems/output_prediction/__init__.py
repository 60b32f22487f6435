"""The built-in data set: what does this call return?"""
