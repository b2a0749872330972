/** By the class of a status. */
const TONES: Record<string, string> = {
  '2': 'text-ok',
  '3': 'text-accent',
  '4': 'text-warn',
  '5': 'text-bad',
}
/** The ink of a status. */
export const toneOf = (status: number): string => TONES[String(status)[0] ?? ''] ?? 'text-soft'
