# expect: job/driver
# Nomad accepts this.
# Reason: the driver runs no process, so the plugin never becomes healthy.
job "x" {
  group "g" {
    task "t" {
      driver = "mock_driver"
      csi_plugin {
        id        = "hostpath"
        type      = "monolith"
        mount_dir = "/csi"
      }
    }
  }
}
