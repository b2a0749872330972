import type { Deployment } from '@platform/sdk'
import { Undo2 } from 'lucide-preact'
import { Button } from '../../parts/button.tsx'
import { Failure } from '../../parts/notice.tsx'
import { usePromotion } from '../../platform/deployments.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { nameOf } from '../../words.ts'

const hint = 'Nothing is built: it comes back as it was, with the variables that it was deployed with.'

/**
 * Makes a deployment what its environment serves. current: what production serves now, to come back to. isNamed: where the deployment's name
 * does not stand beside the button.
 */
export function PromoteButton({
  deployment,
  current,
  isNamed = false,
}: {
  deployment: Deployment
  current: Deployment | undefined
  isNamed?: boolean
}) {
  const { application } = useApplication()
  const promotion = usePromotion(application)
  const { status, isCurrent, retiredAt } = deployment
  if (status !== 'ACTIVE' || isCurrent || retiredAt !== null) return null
  const isOlder = current !== undefined && deployment.isProduction && deployment.id < current.id
  const before = deployment.isProduction ? current : undefined
  return (
    <>
      <Button
        title={hint}
        reason={promotion.isPending ? 'Under way' : undefined}
        onClick={() => promotion.mutate({ deployment, before })}
      >
        <Undo2 size={16} strokeWidth={1.5} aria-hidden="true" class={isOlder ? '' : '-scale-x-100'} />
        {isOlder ? 'Roll back' : 'Promote'}
        {isNamed && <span class="sr-only">to {nameOf(deployment)}</span>}
      </Button>
      {promotion.error && <Failure error={promotion.error} />}
    </>
  )
}
