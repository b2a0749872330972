declare global {
  namespace App {
    interface Locals {
      note: string
    }
  }
}

export {}
