"""An encoder alone, as BERT is: every token looks at all others, on both sides.

Embeddings of tokens, positions and types are added and normalised; post-norm layers follow, as in
the encoder of the first Transformer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from course_lib.blocks.embeddings import TokenEmbedding
from course_lib.blocks.encoder_decoder import EncoderLayer
from course_lib.blocks.feed_forward import ACTIVATIONS
from course_lib.blocks.masks import padding_mask
from course_lib.blocks.normalization import LayerNorm
from course_lib.blocks.positions import LearnedPositions
from course_lib.blocks.sentence_embeddings import mean_pooling, unit_length
from course_lib.models.weights import Source, config_dictionary, load_weights
from course_lib.validation import (
    check_at_least,
    check_choice,
    check_divides,
    check_dropout,
    check_flag,
    check_number,
    check_room,
    check_several,
    check_sizes,
    check_text,
    check_token_ids,
    check_token_lengths,
    describe,
)

__all__ = [
    "BERT_BASE",
    "EncoderConfig",
    "EncoderOnly",
    "SentenceTokenizer",
    "bert",
    "embed_sentences",
    "encoder_config",
]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """What an encoder alone is built of.

    Parameters
    ----------
    vocab_size, d_model, n_layers, n_heads, d_ff : int
        Tokens, width, layers, heads, width inside the feed-forward networks.
    max_length : int
        Rows of the table of learned positions.
    n_types : int, default 2
        Kinds of token: BERT tells the first sentence of a pair from the second.
    eps : float, default 1e-12
        Of the norms.
    activation : str, default "gelu"
        "gelu" (exact), "gelu_tanh", "relu" or "silu".
    pooler : bool, default True
        Whether there is a layer that makes one vector of the first token's.
    dropout : float, default 0
        Share of the embeddings, and of what each sublayer adds, that is set to 0 in training.

    Raises
    ------
    ValueError
        If an argument is out of its range, or doesn't fit the others.

    Examples
    --------
    >>> config = EncoderConfig(
    ...     vocab_size=100, d_model=16, n_layers=2, n_heads=4, d_ff=64, max_length=32
    ... )
    >>> config.n_types
    2
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    max_length: int
    n_types: int = 2
    eps: float = 1e-12
    activation: str = "gelu"
    pooler: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        names = ("vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "max_length", "n_types")
        check_sizes(**{name: getattr(self, name) for name in names})
        check_divides("n_heads", self.n_heads, "d_model", self.d_model)
        check_number("eps", self.eps, above=0.0)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_flag("pooler", self.pooler)
        check_dropout(self.dropout)


def bert(
    vocab_size: int = 30_522,
    d_model: int = 768,
    n_layers: int = 12,
    n_heads: int = 12,
    max_length: int = 512,
    **changes: Any,
) -> EncoderConfig:
    """Return a configuration of BERT's kind; that of the base model by default.

    Parameters
    ----------
    vocab_size, d_model, n_layers, n_heads, max_length : int
    **changes
        Anything else that `EncoderConfig` takes; `d_ff` is ``4 d_model`` where left out.

    Returns
    -------
    EncoderConfig

    Raises
    ------
    ValueError
        As `EncoderConfig`.

    References
    ----------
    Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
    Understanding", 2019 (arXiv:1810.04805), section 3.

    Examples
    --------
    >>> bert(d_model=384, n_layers=6).d_ff  # MiniLM
    1536
    """
    check_sizes(d_model=d_model)
    settings: dict[str, Any] = {"d_ff": 4 * d_model, **changes}
    return EncoderConfig(
        vocab_size=vocab_size, d_model=d_model, n_layers=n_layers, n_heads=n_heads,
        max_length=max_length, **settings,
    )  # fmt: skip


BERT_BASE = bert()


class EncoderOnly(nn.Module):
    """Make a vector of every token of a text, which knows of all the others.

    Matrices start normally distributed with deviation 0.02 and biases at 0, as BERT's.

    Parameters
    ----------
    config : EncoderConfig
        Such as ``bert(…)``.

    Raises
    ------
    ValueError
        If `config` is no `EncoderConfig`.

    References
    ----------
    Devlin et al. 2019 (arXiv:1810.04805), section 3.

    Examples
    --------
    >>> model = EncoderOnly(bert(100, d_model=16, n_layers=2, n_heads=4))
    >>> hidden = model(torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([3, 1]))
    >>> hidden.shape, model.pool(hidden).shape
    (torch.Size([2, 3, 16]), torch.Size([2, 16]))
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        if not isinstance(config, EncoderConfig):
            raise ValueError(f"config must be an EncoderConfig; got {describe(config)}")
        self.config = config
        d, eps = config.d_model, config.eps
        self.embedding = TokenEmbedding(config.vocab_size, d, scale=False)
        self.positions = LearnedPositions(config.max_length, d)
        self.types = TokenEmbedding(config.n_types, d, scale=False)
        self.embedding_norm = LayerNorm(d, eps)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList()
        for _ in range(config.n_layers):
            layer = EncoderLayer(
                d, config.n_heads, config.d_ff,
                dropout=config.dropout, activation=config.activation,
            )  # fmt: skip
            layer.attention.norm, layer.feed_forward.norm = LayerNorm(d, eps), LayerNorm(d, eps)
            self.layers.append(layer)
        self.pooler = nn.Linear(d, d) if config.pooler else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew, and set biases to 0."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif not name.endswith(("gamma", "beta")):
                nn.init.normal_(parameter, std=0.02)

    @classmethod
    def from_transformers(cls, state_dict: Mapping[str, Tensor], config: Any) -> EncoderOnly:
        """Return the model of a BERT of transformers, its weights included.

        Parameters
        ----------
        state_dict : mapping of names to tensors
            Of ``BertModel``, or what its checkpoints hold. Copied. Whether there is a pooler is
            seen from it. In the checkpoint of a larger model the names begin with "bert."; the
            heads of pre-training beside it, "cls.", are left out then.
        config : configuration of transformers, or dictionary
            As `encoder_config` takes it.

        Returns
        -------
        EncoderOnly
            In evaluation mode, of the dtype that the embeddings have there.

        Raises
        ------
        ValueError
            If the model is one of another kind, has an option that ours hasn't, or `state_dict`
            lacks a tensor, has one too many, or one of another shape.

        Examples
        --------
        >>> config = {
        ...     "model_type": "bert", "vocab_size": 9, "max_position_embeddings": 5,
        ...     "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        ...     "intermediate_size": 8,
        ... }
        >>> EncoderOnly.from_transformers({}, config)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: state_dict must hold what the configuration asks for; embeddings.LayerNorm.b...
        """
        names = [str(name) for name in state_dict] if isinstance(state_dict, Mapping) else []
        prefix = "bert." if any(name.startswith("bert.") for name in names) else ""
        pooler = any(name.startswith(f"{prefix}pooler.") for name in names)
        ours = encoder_config(config, pooler=pooler)
        with torch.device("meta"):  # no memory and no random numbers: all is replaced
            model = cls(ours)
        if isinstance(state_dict, Mapping):
            state_dict = {_modern(name): tensor for name, tensor in state_dict.items()}
        heads = r"|^cls\." if prefix else ""
        ignored = r"embeddings\.position_ids$" + heads  # 0, 1, 2, …
        load_weights(model, state_dict, _bert_sources(ours, prefix), ignored=ignored)
        return model.eval()

    def forward(
        self, ids: Tensor, lengths: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Read texts; what lies behind a text's length changes nothing before it.

        Parameters
        ----------
        ids : int64 tensor, (b, n)
            Padded at the end, with any ids.
        lengths : int64 tensor, (b,), optional
            Numbers of real tokens; without it none is padded.
        types : int64 tensor, (b, n), optional
            The kind of each token; 0 where left out.

        Returns
        -------
        float tensor, (b, n, d_model)

        Raises
        ------
        ValueError
            If an id isn't in the vocabulary, a shape, a dtype or a length doesn't fit, or the text
            is longer than `max_length`.
        """
        check_token_ids("ids", ids, "(b, n)", self.config.vocab_size)
        check_room("ids", ids.shape[1], self.config.max_length)
        mask = None
        if lengths is not None:
            check_token_lengths("lengths", lengths, "ids", ids)
            if bool((lengths < ids.shape[1]).any()):
                mask = padding_mask(lengths, ids.shape[1])  # (b, 1, 1, n)
        if types is None:
            types = torch.zeros_like(ids)
        check_token_ids("types", types, "(b, n)", self.config.n_types)
        if types.shape != ids.shape:
            raise ValueError(
                f"types must have the shape of ids, {tuple(ids.shape)}; got {tuple(types.shape)}"
            )
        x = self.positions(self.embedding(ids) + self.types(types))  # (b, n, d)
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def pool(self, hidden: Tensor) -> Tensor:
        """Return one vector for each text, from that of its first token.

        ``tanh(W x_0 + b)``, which BERT was trained to tell by whether two sentences belong
        together.

        Parameters
        ----------
        hidden : float tensor, (b, n, d_model)
            What the model returned.

        Returns
        -------
        float tensor, (b, d_model)

        Raises
        ------
        ValueError
            If the model has no pooler.
        """
        if self.pooler is None:
            raise ValueError("the model must have a pooler; its configuration says pooler = False")
        return self.pooler(hidden[:, 0]).tanh()


class SentenceTokenizer(Protocol):
    """What makes ids of a sentence, with the tokens around it that the model wants."""

    def encode(self, text: str, *, ends: bool) -> list[int]:
        """Return the ids of a text, begin and end included where `ends`."""
        ...


@torch.no_grad()
def embed_sentences(
    model: EncoderOnly,
    tokenizer: SentenceTokenizer,
    sentences: Sequence[str],
    *,
    batch_size: int = 32,
    max_length: int | None = None,
) -> Tensor:
    """Return a vector of length 1 for each sentence: the mean of its tokens' vectors.

    Sentences of about one length are read together, so that little is padded; what comes out is in
    the order of what came in.

    Parameters
    ----------
    model : EncoderOnly
        It is put in evaluation mode meanwhile.
    tokenizer : such as `WordPiece`
    sentences : sequence of str
    batch_size : int, default 32
    max_length : int, optional
        Most tokens of a sentence, at least 2, those at its ends included: what is longer is cut.
        That of the model where left out.

    Returns
    -------
    float tensor, (number of sentences, d_model)

    Raises
    ------
    ValueError
        If there is no sentence, one isn't a string, or a number is out of its range.

    References
    ----------
    Reimers and Gurevych, "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks", 2019
    (arXiv:1908.10084), section 3.

    Examples
    --------
    >>> from course_lib.models.minilm import minilm_model, minilm_tokenizer
    >>> sentences = ["a cat on a mat", "there sits a kitten", "interest rates were raised"]
    >>> vectors = embed_sentences(minilm_model(), minilm_tokenizer(), sentences)
    >>> [round(cosine, 2) for cosine in (vectors @ vectors[0]).tolist()]
    [1.0, 0.52, 0.01]
    """
    check_several("sentences", sentences, "a sequence of strings")
    check_sizes(batch_size=batch_size)
    longest = model.config.max_length if max_length is None else max_length
    check_at_least("max_length", longest, 2)
    check_room("a sentence cut to max_length", longest, model.config.max_length)
    if len(sentences) == 0:
        raise ValueError("sentences must hold at least one sentence; got none")
    texts = []
    for i, sentence in enumerate(sentences):
        check_text(f"sentences[{i}]", sentence)
        ids = tokenizer.encode(sentence, ends=True)
        texts.append(ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]])
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    device = model.embedding.table.device
    training = model.training
    model.eval()
    vectors: list[Tensor] = [torch.empty(0)] * len(texts)
    try:
        for start in range(0, len(order), batch_size):
            some = order[start : start + batch_size]
            lengths = torch.tensor([len(texts[i]) for i in some], device=device)
            n = int(lengths.max())
            rows = [texts[i] + [0] * (n - len(texts[i])) for i in some]
            hidden = model(torch.tensor(rows, device=device), lengths)
            mask = padding_mask(lengths, n)[:, 0, 0]  # (b, n)
            for i, vector in zip(some, unit_length(mean_pooling(hidden, mask)), strict=True):
                vectors[i] = vector
    finally:
        model.train(training)
    return torch.stack(vectors)


# --- the names of transformers --------------------------------------------------------------------

_ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
    "silu": "silu",
}  # fmt: skip


def encoder_config(config: Any, *, pooler: bool = True) -> EncoderConfig:
    """Return our configuration for a ``BertConfig`` of transformers.

    Parameters
    ----------
    config : configuration of transformers, or dictionary
    pooler : bool, default True
        Theirs doesn't say whether there is one.

    Returns
    -------
    EncoderConfig

    Raises
    ------
    ValueError
        If the model is of another kind, a size is missing, or an option is chosen that our model
        hasn't.

    Examples
    --------
    >>> theirs = {
    ...     "model_type": "bert", "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6,
    ...     "num_attention_heads": 12, "intermediate_size": 1536, "max_position_embeddings": 512,
    ... }
    >>> encoder_config(theirs) == bert(d_model=384, n_layers=6, dropout=0.1)
    True
    """
    settings = config_dictionary(config)
    if settings["model_type"] != "bert":
        raise ValueError(f"config must have model_type 'bert'; got {settings['model_type']!r}")
    sizes = {
        "vocab_size": "vocab_size", "d_model": "hidden_size", "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads", "d_ff": "intermediate_size",
        "max_length": "max_position_embeddings",
    }  # fmt: skip
    for theirs in sizes.values():
        if settings.get(theirs) is None:
            raise ValueError(f"config must have {theirs}; got none")
    only = {"position_embedding_type": "absolute", "is_decoder": False,
            "add_cross_attention": False}  # fmt: skip
    for name, value in only.items():
        if settings.get(name, value) != value:
            raise ValueError(
                f"config must have {name} = {value!r}, for there is no other here; "
                f"got {settings[name]!r}"
            )
    activation = settings.get("hidden_act", "gelu")
    check_choice("hidden_act", activation, _ACTIVATIONS)
    return EncoderConfig(
        **{ours: settings[theirs] for ours, theirs in sizes.items()},
        n_types=settings.get("type_vocab_size", 2), eps=settings.get("layer_norm_eps", 1e-12),
        activation=_ACTIVATIONS[activation], pooler=pooler,
        dropout=settings.get("hidden_dropout_prob", 0.1),
    )  # fmt: skip


def _modern(name: str) -> str:
    """Return what is called gamma and beta in old checkpoints by its newer name."""
    if isinstance(name, str) and "LayerNorm" in name:
        return name.replace("gamma", "weight").replace("beta", "bias")
    return name


def _bert_sources(config: EncoderConfig, prefix: str) -> list[Source]:
    """Return where our weights stand in a BERT."""
    names = {
        "embeddings.word_embeddings.weight": "embedding.table",
        "embeddings.position_embeddings.weight": "positions.table",
        "embeddings.token_type_embeddings.weight": "types.table",
    }
    layers = {"embeddings.LayerNorm": "embedding_norm"}
    if config.pooler:
        layers["pooler.dense"] = "pooler"
    for i in range(config.n_layers):
        there, here = f"encoder.layer.{i}", f"layers.{i}"
        layers |= {
            f"{there}.attention.self.query": f"{here}.attention.sublayer.w_q",
            f"{there}.attention.self.key": f"{here}.attention.sublayer.w_k",
            f"{there}.attention.self.value": f"{here}.attention.sublayer.w_v",
            f"{there}.attention.output.dense": f"{here}.attention.sublayer.w_o",
            f"{there}.attention.output.LayerNorm": f"{here}.attention.norm",
            f"{there}.intermediate.dense": f"{here}.feed_forward.sublayer.w_1",
            f"{there}.output.dense": f"{here}.feed_forward.sublayer.w_2",
            f"{there}.output.LayerNorm": f"{here}.feed_forward.norm",
        }
    for theirs, ours in layers.items():
        weight, bias = ("gamma", "beta") if "norm" in ours else ("weight", "bias")
        names |= {f"{theirs}.weight": f"{ours}.{weight}", f"{theirs}.bias": f"{ours}.{bias}"}
    return [Source(prefix + theirs, (ours,)) for theirs, ours in names.items()]
