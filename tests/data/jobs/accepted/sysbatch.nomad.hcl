job "cleanup" {
  type = "sysbatch"
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
