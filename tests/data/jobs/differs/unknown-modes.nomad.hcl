# expect: spec/unknown-access-mode spec/unknown-attachment-mode
# Nomad accepts this.
# Reason: no volume has such a mode, so the allocation fails when it claims the volume.
job "x" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "writer"
      attachment_mode = "filesystem"
    }
    task "t" {
      driver = "exec"
    }
  }
}
