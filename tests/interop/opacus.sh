#!/usr/bin/env bash
# Train with Opacus and our accountant. A CPU build of torch is enough.
exec "$(dirname "$0")/run" check_opacus.py torch==2.13.0 opacus==1.6.0
