# expect: job/csi-plugin
# Nomad accepts this.
# Reason: both sockets would be the same file in the directory of the allocation.
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      csi_plugin {
        id        = "hostpath"
        type      = "controller"
        mount_dir = "/csi"
      }
    }
    task "u" {
      driver = "exec"

      csi_plugin {
        id   = "other"
        type = "node"
      }
    }
  }
}
