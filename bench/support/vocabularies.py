"""A model's vocabulary as the backend builds it, without the model's weights."""

import transformers

from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary


def vocabulary_of(directory: str) -> Vocabulary:
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    size = transformers.AutoConfig.from_pretrained(directory).vocab_size
    ends = transformers.GenerationConfig.from_pretrained(directory).eos_token_id
    return make_vocabulary(tokenizer, size, ends if isinstance(ends, list) else [ends])
