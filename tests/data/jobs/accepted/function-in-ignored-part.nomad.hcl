variable "image" {
  default = "x"
}

job "functions" {
  group "g" {
    service {
      name     = upper("web")
      provider = "nomad"
      tags     = [var.image]
    }
    task "t" {
      driver = "exec"
    }
  }
}
