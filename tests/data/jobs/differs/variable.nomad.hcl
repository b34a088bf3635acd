# expect: job/expression
# Nomad accepts this.
# Reason: this program evaluates no expressions.
variable "user" {
  default = "nobody"
}

job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      user = var.user
    }
  }
}
