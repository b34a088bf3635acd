# expect: job/volume-options
job "x" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "block-device"

      mount_options {
        fs_type = "ext4"
      }
    }
    task "t" {
      driver = "exec"
    }
  }
}
