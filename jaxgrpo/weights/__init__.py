"""Hugging Face checkpoints to parameters and back.

A checkpoint is a folder: config.json, *.safetensors (one file, or shards with an
index), tokenizer files. `builtin:NAME` names one that ships with the package.

    names.py      which tensor holds which parameter, and in which layout
    folder.py     a checkpoint's folder by its name, and its architecture
    reading.py    slices of tensors out of safetensors files
    loading.py    tensors straight into sharded arrays
    writing.py    tensors into files, one at a time; folders that are whole or absent
    saving.py     parameters into a checkpoint
    peft.py       LoRA adapters, as the library PEFT stores them
    gguf.py, gguf_tokenizer.py    llama.cpp's files, as a source of checkpoints
"""

from jaxgrpo.weights.folder import checkpoint_folder, load_architecture
from jaxgrpo.weights.loading import load_params
from jaxgrpo.weights.saving import save_checkpoint

__all__ = ["checkpoint_folder", "load_architecture", "load_params", "save_checkpoint"]
