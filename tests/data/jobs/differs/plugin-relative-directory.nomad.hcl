# expect: job/csi-plugin
# Nomad accepts this.
# Reason: the socket would be mounted at a path that depends on the working directory.
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      csi_plugin {
        id        = "hostpath"
        type      = "monolith"
        mount_dir = "csi"
      }
    }
  }
}
