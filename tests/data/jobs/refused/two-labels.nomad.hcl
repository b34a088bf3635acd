# expect: spec/unexpected-label
job "x" {
  group "g" {
    volume "a" "b" {
      type   = "host"
      source = "db"
    }
    task "t" {
      driver = "exec"
    }
  }
}
