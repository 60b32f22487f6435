"""The GRPO family of losses, from rewards to one number.

advantages      rewards -> one advantage per row; redistribution, pass_rates beside it
credit          a row's advantage -> its tokens
masks           which tokens and rows take part
ratios          policy ratios and the surrogates that clip them
divergences     distance to a reference
correction      weights for a sampler that is not quite the trainer
aggregation     token losses -> a sum, and the denominator of that sum
presets         names for combinations of the above
loss            `grpo_loss`
metrics         totals and weights that add up over parts
experimental    readings of sources without a formula
"""
