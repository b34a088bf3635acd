job "plugin" {
  type = "system"
  group "g" {
    task "t" {
      driver = "exec"
      csi_plugin {
        id        = "hostpath"
        type      = "controller"
        mount_dir = "/csi"
      }
    }
  }
  group "nodes" {
    task "node" {
      driver = "exec"

      csi_plugin {
        id             = "hostpath"
        type           = "node"
        health_timeout = "2m"
      }
    }
  }
}
