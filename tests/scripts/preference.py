"""A small preference tuning with TRL, described in docs/alignment.md: a model that prefers "!" and "?".

Needs: pip install torch transformers peft trl datasets.  tests/scripts/preference.py OUT writes OUT/policy, an adapter
of the fixture tale-small tuned by DPO, and OUT/reward, an adapter that makes a reward model of it, as saved by their
trainers.  Both learn from the same pairs: two texts that tale-small generated from the same prompt, of which the one
with more "!" and "?" is preferred.  Takes some four minutes on two cores.
"""

import os
import sys

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

out = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
base = os.path.join(here, "..", "..", "fixtures", "models", "tale-small")
torch.manual_seed(7)
tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(base, "tokenizer.json"), eos_token="<|endoftext|>",
                                    pad_token="<|endoftext|>", padding_side="left")
model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
prompts = ["The captain", "She looked at", "\"I do not", "It was late", "They went", "\"Where", "The old man", "He said",
           "In the morning", "\"Come", "When the storm", "My dear"]


def score(text):
    return text.count("!") + text.count("?")


pairs = []
for prompt in prompts:
    ids = tokenizer([prompt], return_tensors="pt", add_special_tokens=False).input_ids.expand(96, -1)
    with torch.no_grad():
        written = model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, do_sample=True, max_new_tokens=40, min_new_tokens=40, top_k=0, temperature=1.0)
    texts = [tokenizer.decode(row[ids.shape[1]:]) for row in written]
    texts.sort(key=score)
    pairs += [{"prompt": prompt, "chosen": best, "rejected": worst}
              for best, worst in zip(texts[:47:-1], texts[:48]) if score(best) > score(worst)]
print(len(pairs), "pairs")
data = Dataset.from_list(pairs)
common = dict(per_device_train_batch_size=8, learning_rate=5e-4, num_train_epochs=3, logging_steps=40, report_to=[],
              save_strategy="no", use_cpu=True, bf16=False, max_length=64, gradient_checkpointing=False)
lora = dict(r=8, lora_alpha=16, target_modules="all-linear")
policy = DPOTrainer(model=base, args=DPOConfig(output_dir=os.path.join(out, "policy"), beta=0.1, **common,
                                               model_init_kwargs=dict(dtype=torch.float32)),
                    train_dataset=data, processing_class=tokenizer, peft_config=LoraConfig(task_type="CAUSAL_LM", **lora))
policy.train()
policy.save_model()
head = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32)
head.config.pad_token_id = tokenizer.pad_token_id
reward = RewardTrainer(model=head, args=RewardConfig(output_dir=os.path.join(out, "reward"), **common),
                       train_dataset=data, processing_class=tokenizer,
                       peft_config=LoraConfig(task_type="SEQ_CLS", modules_to_save=["score"], **lora))
reward.train()
reward.save_model()
