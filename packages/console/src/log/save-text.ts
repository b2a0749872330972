import { counted } from '../words.ts'
import { plainText } from './escapes.ts'
import { isGap, type LogLine, type LogLines, type LogRow } from './lines.ts'
import { eachRowInSlices } from './slices.ts'

/** The browser needs the address until it began to save. */
const ADDRESS_KEPT_MS = 60_000

const rowText = (row: LogRow): string =>
  isGap(row) ? `… ${counted(row.gap, 'line')} left out\n` : `${row.at} ${row.level.padEnd(5)} ${plainText(row.text)}\n`

/** All lines as UTF-8: time in UTC, level, and text without escape sequences. */
async function logBlob<Line extends LogLine>(lines: LogLines<Line>): Promise<Blob> {
  const size = lines.size
  const texts: string[] = []
  await eachRowInSlices({ from: 0, size: () => size }, (index) => {
    const row = lines.row(index)
    if (row) texts.push(rowText(row))
  })
  return new Blob(texts, { type: 'text/plain;charset=utf-8' })
}

/** Lets the browser save all lines that there are now as a text file. */
export async function saveText<Line extends LogLine>(lines: LogLines<Line>, fileName: string): Promise<void> {
  const address = URL.createObjectURL(await logBlob(lines))
  const link = document.createElement('a')
  link.href = address
  link.download = fileName
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), ADDRESS_KEPT_MS)
}
