"""Python SDK for Pie inferlets. See README.md for the two styles, awaiting and blocking."""

from . import (
    brle,
    chat,
    http,
    mcp,
    messaging,
    reasoning,
    runtime,
    scheduling,
    session,
    spec,
    tools,
    zo,
)
from ._entry import set_return
from .adapter import Adapter, AdapterFiles
from .constraint import (
    AnyJson,
    Constraint,
    Ebnf,
    GrammarConstraint,
    JsonSchema,
    Regex,
    Schema,
)
from .context import Context
from .errors import McpError, PieError
from .events import Decoder, Event, EventStream
from .forward import Forward, ForwardPass
from .generator import Generator, GenStep, TokenStream
from .grammar import Grammar, Matcher
from .mcp import McpSession
from .messaging import Subscription
from .model import Model, Tokenizer
from .output import Output, ProbeHandle, SampleHandle
from .pages import RawContext
from .probes import Distribution, Embedding, Entropy, Logits, Logprob, Logprobs, Probe
from .sampler import Sampler
from .spec import Speculator

__all__ = [
    "Adapter",
    "AdapterFiles",
    "AnyJson",
    "Constraint",
    "Context",
    "Decoder",
    "Distribution",
    "Ebnf",
    "Embedding",
    "Entropy",
    "Event",
    "EventStream",
    "Forward",
    "ForwardPass",
    "GenStep",
    "Generator",
    "Grammar",
    "GrammarConstraint",
    "JsonSchema",
    "Logits",
    "Logprob",
    "Logprobs",
    "Matcher",
    "McpError",
    "McpSession",
    "Model",
    "Output",
    "PieError",
    "Probe",
    "ProbeHandle",
    "RawContext",
    "Regex",
    "SampleHandle",
    "Sampler",
    "Schema",
    "Speculator",
    "Subscription",
    "TokenStream",
    "Tokenizer",
    "brle",
    "chat",
    "http",
    "mcp",
    "messaging",
    "reasoning",
    "runtime",
    "scheduling",
    "session",
    "set_return",
    "spec",
    "tools",
    "zo",
]
