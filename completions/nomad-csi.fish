complete --keep-order --exclusive --command nomad-csi --arguments "(COMPLETE=fish nomad-csi -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
