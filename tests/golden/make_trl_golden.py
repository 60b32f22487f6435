"""Writes trl_loss.json: TRL's own losses, gradients and advantages on stored inputs.

Not run by the tests, which read the file. To make it again, in an environment of its
own with `pip install torch==2.13.0 trl==1.16.0`:

    python tests/golden/make_trl_golden.py
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch  # pyright: ignore[reportMissingImports]
import transformers
import trl  # pyright: ignore[reportMissingImports]
from datasets import Dataset  # pyright: ignore[reportMissingImports]

NUM_ROWS, NUM_POSITIONS = 6, 8
LENGTHS = (8, 5, 1, 8, 3, 6)
LENGTHS_WITH_AN_EMPTY_ROW = (8, 5, 0, 8, 3, 6)
MAX_COMPLETION_LENGTH = 12
GROUP_SIZE = 4
TARGET = Path(__file__).with_name("trl_loss.json")

LOSS_CASES: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo"},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.2},
    "sapo": {"loss_type": "sapo"},
    "luspo": {
        "loss_type": "luspo",
        "importance_sampling_level": "sequence",
        "epsilon": 0.05,
    },
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 0.05,
    },
    "k3": {"loss_type": "grpo", "beta": 0.5, "use_bias_correction_kl": False},
    "k3_token_mean": {
        "loss_type": "dapo",
        "beta": 0.5,
        "use_bias_correction_kl": False,
    },
    "k3_corrected": {"loss_type": "grpo", "beta": 0.5, "use_bias_correction_kl": True},
    "delta": {"loss_type": "grpo", "delta": 1.3},
    "top_entropy": {"loss_type": "dapo", "top_entropy_quantile": 0.5},
    "off_policy": {"loss_type": "grpo", "off_policy_mask_threshold": 0.05},
    "grpo with an empty row": {"loss_type": "grpo"},
    "dr_grpo with an empty row": {"loss_type": "dr_grpo"},
    "dapo with an empty row": {"loss_type": "dapo"},
}
METRICS = (
    "kl", "entropy", "cispo_clip_ratio",
    "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean",
)  # fmt: skip

ADVANTAGE_CASES: dict[str, dict[str, Any]] = {
    "group": {"scale_rewards": "group"},
    "batch": {"scale_rewards": "batch"},
    "none": {"scale_rewards": "none"},
    "gdpo": {"multi_objective_aggregation": "normalize_then_sum"},
}
REWARD_WEIGHTS = (1.0, 0.5)


def make_trainer(reward_funcs: list[Any], folder: str, **options: Any) -> Any:
    """TRL's trainer around a model and tokenizer made on the spot."""
    vocabulary = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i for i in range(2, 32)}}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "w2"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>"
    )
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
    }
    heads: dict[str, Any] = {
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
    }
    model = transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(vocab_size=32, **sizes, **heads)
    )
    beta = options.pop("beta", 0.0)
    config = trl.GRPOConfig(
        output_dir=folder, use_cpu=True, bf16=False, report_to="none",
        gradient_checkpointing=False, num_generations=GROUP_SIZE,
        per_device_train_batch_size=3 * GROUP_SIZE,
        max_completion_length=MAX_COMPLETION_LENGTH,
        beta=0.0, **options,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=model, reward_funcs=reward_funcs, args=config,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": ["w3", "w4", "w5"]}),
    )  # fmt: skip
    # Set late: with a divergence TRL would load a reference model by its hub name.
    trainer.beta = beta
    return trainer


def loss_inputs() -> dict[str, np.ndarray]:
    """Random inputs that float32 holds exactly."""
    rng = np.random.default_rng(0)
    shape = (NUM_ROWS, NUM_POSITIONS)
    logprobs = -rng.uniform(0.05, 3, shape)
    arrays = {
        "logprobs": logprobs,
        "old": logprobs + rng.normal(0, 0.3, shape),
        "ref": logprobs + rng.normal(0, 0.5, shape),
        "entropies": rng.uniform(0, 2, shape),
        "advantages": rng.normal(0, 1, NUM_ROWS),
    }
    return {k: v.astype(np.float32).astype(np.float64) for k, v in arrays.items()}


def evaluate_loss(name: str, options: dict[str, Any], folder: str) -> dict[str, Any]:
    """TRL's loss with its forward pass replaced by the stored log-probs."""
    trainer = make_trainer([lambda completions, **_: [0.0]], folder, **options)
    arrays = {name: torch.tensor(values) for name, values in loss_inputs().items()}
    logprobs = arrays["logprobs"].requires_grad_()
    has_empty_row = name.endswith("with an empty row")
    lengths = LENGTHS_WITH_AN_EMPTY_ROW if has_empty_row else LENGTHS
    mask = (torch.arange(NUM_POSITIONS) < torch.tensor(lengths)[:, None]).long()
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (
        logprobs, arrays["entropies"], None
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    trainer.args.steps_per_generation = 1
    tokens = torch.ones((NUM_ROWS, NUM_POSITIONS), dtype=torch.long)
    trainer.model.train()
    loss = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": tokens[:, :1], "prompt_mask": tokens[:, :1],
            "completion_ids": tokens, "completion_mask": mask,
            "advantages": arrays["advantages"],
            "old_per_token_logps": arrays["old"],
            "ref_per_token_logps": arrays["ref"],
            "num_items_in_batch": mask.sum(),
        },
    )  # fmt: skip
    loss.backward()
    assert logprobs.grad is not None
    logged = trainer._metrics["train"]
    return {
        "options": options,
        "lengths": lengths,
        "loss": loss.item(),
        "gradient": logprobs.grad.tolist(),
        "metrics": {key: logged[key][0] for key in METRICS if key in logged},
    }


def rewards_of(case: str) -> list[list[float | None]]:
    """Two rewards of three groups: fractions, a tied group, and unscorable rows."""
    first: list[float | None] = [0.9, 0.1, 0.4, 0.4, 0.7, 0.7, 0.7, 0.7, 1, 0, 0, 0]
    second: list[float | None] = [0, 1, 0, 1, 0.3, 0.3, 0.3, 0.3, 0.25, 0.5, 0.75, 1]
    if case.endswith("with a missing row"):
        first[1] = second[1] = first[10] = second[10] = None
    if case.endswith("with half a row"):
        first[1] = None
    return [first, second]


def evaluate_advantages(case: str, options: dict[str, Any], folder: str) -> Any:
    """TRL's advantages of completions that score the stored rewards."""
    rewards = rewards_of(case)
    trainer = make_trainer(
        [stored_reward(column, i) for i, column in enumerate(rewards)],
        folder, reward_weights=list(REWARD_WEIGHTS), **options,
    )  # fmt: skip
    prompts = [{"prompt": f"w{3 + i // GROUP_SIZE}"} for i in range(3 * GROUP_SIZE)]
    trainer.model.train()
    outputs = trainer._generate_and_score_completions(prompts)
    return {
        "options": options,
        "rewards": rewards,
        "advantages": outputs["advantages"].tolist(),
    }


def stored_reward(column: list[float | None], index: int) -> Any:
    def reward(completions: list[Any], **_: Any) -> list[float | None]:
        return column

    reward.__name__ = f"reward_{index}"
    return reward


def main() -> None:
    """Evaluates every case and writes the file."""
    with tempfile.TemporaryDirectory() as folder:
        losses = {
            name: evaluate_loss(name, options, folder)
            for name, options in LOSS_CASES.items()
        }
        advantages = {
            case: evaluate_advantages(case, options, folder)
            for name, options in ADVANTAGE_CASES.items()
            for case in (
                name,
                f"{name} with a missing row",
                f"{name} with half a row",
            )
        }
    content = {
        "versions": {
            "trl": trl.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "inputs": {k: v.tolist() for k, v in loss_inputs().items()},
        "max_completion_length": MAX_COMPLETION_LENGTH,
        "group_size": GROUP_SIZE,
        "reward_weights": REWARD_WEIGHTS,
        "losses": losses,
        "advantages": advantages,
    }
    TARGET.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
