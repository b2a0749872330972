import type { Socket } from 'node:net'

/** Relays bytes in both directions until both sides have ended. */
export function relay(near: Socket, far: Socket): void {
  near.pipe(far)
  far.pipe(near)
  near.on('error', () => far.destroy()).on('close', () => far.destroy())
  far.on('error', () => near.destroy()).on('close', () => near.destroy())
}
