# expect: job/constraint job/constraint
job "x" {
  constraint {
    value = "linux"
  }

  constraint {
    attribute = "${attr.kernel.name}"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
