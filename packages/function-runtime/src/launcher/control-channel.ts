import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import type { SlotCommand, SlotMessage } from './messages.ts'

/** Opens descriptor 3. When the platform closes it, or is killed, the slot and its children end. */
export function openControl(onCommand: (command: SlotCommand) => void): (message: SlotMessage) => void {
  const socket = new Socket({ fd: 3, readable: true, writable: true })
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onCommand(JSON.parse(line) as SlotCommand)
  })
  socket.on('error', () => {})
  socket.once('close', () => {
    // The slot leads its process group.
    process.kill(0, 'SIGKILL')
  })
  return (message) => {
    const line = `${JSON.stringify(message)}\n`
    const { failed, outOfMemory, isHeapTooLarge } = message
    // A message about a failure is the last one: the process ends right after it, so it is written synchronously.
    if (failed === undefined && outOfMemory === undefined && isHeapTooLarge === undefined) socket.write(line)
    else writeSync(3, line)
  }
}
