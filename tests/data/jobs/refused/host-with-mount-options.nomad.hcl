# expect: job/volume-options
job "x" {
  group "g" {
    volume "data" {
      type   = "host"
      source = "db"

      mount_options {
        fs_type = "ext4"
      }
    }
    task "t" {
      driver = "exec"
    }
  }
}
