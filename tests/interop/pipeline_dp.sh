#!/usr/bin/env bash
# Our budget accountant in PipelineDP, on its local backend.
exec "$(dirname "$0")/run" check_pipeline_dp.py pipeline-dp==0.3.1
