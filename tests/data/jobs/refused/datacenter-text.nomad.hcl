# expect: spec/wrong-type
job "x" {
  datacenters = "dc1"
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
