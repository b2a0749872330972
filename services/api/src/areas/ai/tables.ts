export {
  aiBudgets,
  aiBudgetWindows,
  aiHolds,
  aiPolicies,
  aiProviderKeys,
  aiUsageEvents,
  aiUsageSums,
} from './governance/table.ts'
export { aiResponseItems, aiResponses, aiVideoJobs } from './gateway/table.ts'
