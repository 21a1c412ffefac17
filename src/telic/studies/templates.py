"""Files a new study starts with; the comments are for the person who fills them in."""

from __future__ import annotations

IGNORED = """\
locks/
worktrees/
.unfinished-*
"""

TASK_CARD = """\
# {task}

{statement}
"""

EXPERIMENTS = """\
# A plan for people. Editing it changes nothing until a candidate exists.
schema: telic.experiments/1
batches: []
backlog: []
"""

CONTRACT = """\
# What may be tried, with what, for how much, and how it is judged.
# Each part is approved by a person; an edit voids the approval of its part.
schema: telic.contract/1
version: 1
task:
  task_id: {task}
  statement: {statement}
  env_ids: []
  success_definition: ""        # when is it done? e.g. no fall for 20 s
metrics:
  spec: metric_spec.yaml
scope:
  kinds: [config, reward_tuning, curriculum, dr_probe]   # reward_engineering, code: opt in
  params: {{}}                    # name: {{type: float, min: 0.5, max: 4, max_step_ratio: 2}}
  files:
    allow: []
    deny: ["**/eval*.py"]
  limits: {{max_diff_lines: 200, max_changed_params: 4, max_concurrent: 1}}
budget:
  launches: 60
  # wall_clock_h, gpu_h, cpu_core_h, env_steps, llm_usd, llm_tokens, disk_gb, per_candidate
hardware:
  hosts: [local]
  gpus: []
  launcher: local
baseline:
  command: train
  overrides: {{}}
  seeds: []                     # e.g. [901, 902, 903, 904, 905]
evaluation:
  protocol: eval_protocol.yaml
seeds:                          # disjoint: choosing, claiming, confirming
  selection: "1-99"
  promotion: "100-199"
  validation: "900-999"
automation:
  autoloop: false
  launch: ask                   # ask | pre_approved
  decide: ask                   # ask | auto
  max_debug_attempts: 3
stop_rules:
  - {{rule: no_progress, k: 5}}
exceptions: []
approvals: {{}}                   # for reading only: the ledger holds what counts
"""
