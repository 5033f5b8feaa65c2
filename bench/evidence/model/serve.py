"""Serves a GGUF model with xllamacpp on the loopback interface: serve.py MODEL PORT THREADS."""

import signal
import sys

import xllamacpp

# Tool definitions, a descriptor and three replies have fewer tokens.
CONTEXT_TOKENS = 16384
# Prompts that the server keeps in memory: all samples share their beginning.
PROMPT_CACHE_MIB = 1024


def main() -> None:
    model, port, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = CONTEXT_TOKENS
    # One slot: a second one would halve the speed of the first.
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = PROMPT_CACHE_MIB
    # The model's own template puts the tool definitions into the prompt.
    params.use_jinja = True
    params.sampling.seed = 42
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}/v1", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
