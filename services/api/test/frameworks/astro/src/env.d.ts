declare namespace App {
  interface Locals {
    note: string
  }
}
