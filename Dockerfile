# invsamp with dolfinx and MPI, both from Debian's packages alone: Debian 13 has Python 3.13, dolfinx 0.9 and Open MPI 5.
#
#     docker build -t invsamp .
#     docker run --rm -it -v "$PWD:/work" invsamp python my_problem.py
#     docker run --rm -it -v "$PWD:/work" invsamp mpiexec -n 4 python my_problem.py
FROM debian:trixie-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-dolfinx python3-venv openmpi-bin \
    && rm -rf /var/lib/apt/lists/*

# numpy is the one for which dolfinx was built
COPY . /src
RUN python3 -m venv --system-site-packages /opt/invsamp \
    && /opt/invsamp/bin/pip install --no-cache-dir "/src[petab,umbridge]" \
       "numpy==$(python3 -c 'import numpy; print(numpy.__version__)')" \
    && rm -rf /src

# a process solves in one thread: processes are what runs at once
ENV PATH=/opt/invsamp/bin:$PATH OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
RUN useradd --create-home person && mkdir /work && chown person /work
USER person
WORKDIR /work
RUN invsamp doctor && python -c "import invsamp, dolfinx; from mpi4py import MPI"
