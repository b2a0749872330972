/** What calls may have besides text; `everything` if not even text is let through. */
export const refusable = ['everything', 'pictures', 'files', 'recordings', 'earlier responses'] as const
export type Refusable = (typeof refusable)[number]

/** What a model refuses under budgets. */
export interface BudgetWarning {
  model: string
  refuses: Refusable[]
  /** For people. */
  message: string
}
