# expect: job/constraint
job "x" {
  constraint {
    attribute = "${attr.nomad.version}"
    version   = "latest"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
