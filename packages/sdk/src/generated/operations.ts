// Made by `npm run sdk` from the API's OpenAPI document. Do not edit.
import { tellingLostSecret } from '../lost-secret.ts'
import { operation } from '../operation.ts'
import { placed, placedOnce } from '../place.ts'
import { create, infer, once, remove, repeat } from '../repetition.ts'
import type * as t from './types.ts'

/** The version of the API that these operations are of. */
export const apiVersion = '0.27.0'

/** List organizations. */
export const listOrganizations = /* @__PURE__ */ operation<t.ListOrganizationsData, t.ListOrganizationsResponse>('GET', '/organizations', repeat, 'from limit', 'from')

/** Create an organization. */
export const createOrganization = /* @__PURE__ */ operation<t.CreateOrganizationData, t.CreateOrganizationResponse>('POST', '/organizations', create)

/** Get an organization. */
export const getOrganization = /* @__PURE__ */ operation<t.GetOrganizationData, t.GetOrganizationResponse>('GET', '/organizations/{id}', repeat)

/** List members. */
export const listMembers = /* @__PURE__ */ operation<t.ListMembersData, t.ListMembersResponse>('GET', '/organizations/{id}/members', repeat, '', 'whole')

/** Leave an organization, or remove a member. */
export const deleteMembership = /* @__PURE__ */ operation<t.DeleteMembershipData, t.DeleteMembershipResponse>('DELETE', '/memberships/{membershipId}', remove)

/** List invitations. */
export const listInvitations = /* @__PURE__ */ operation<t.ListInvitationsData, t.ListInvitationsResponse>('GET', '/organizations/{id}/invitations', repeat, '', 'whole')

/** Invite somebody to an organization. */
export const createInvitation = /* @__PURE__ */ operation<t.CreateInvitationData, t.CreateInvitationResponse>('POST', '/organizations/{id}/invitations', create)

/** Revoke an invitation. */
export const deleteInvitation = /* @__PURE__ */ operation<t.DeleteInvitationData, t.DeleteInvitationResponse>('DELETE', '/organizations/{id}/invitations/{invitationId}', remove)

/** List product access. */
export const listProducts = /* @__PURE__ */ operation<t.ListProductsData, t.ListProductsResponse>('GET', '/organizations/{id}/products', repeat, '', 'whole')

/** Get product access. */
export const getProduct = /* @__PURE__ */ operation<t.GetProductData, t.GetProductResponse>('GET', '/organizations/{id}/products/{product}', repeat)

/** Check product entitlement. */
export const getEntitlement = /* @__PURE__ */ operation<t.GetEntitlementData, t.GetEntitlementResponse>('GET', '/organizations/{id}/products/{product}/entitlement', repeat)

/** List applications. */
export const listApplications = /* @__PURE__ */ operation<t.ListApplicationsData, t.ListApplicationsResponse>('GET', '/applications', repeat, 'from limit organizationId', 'from')

/** Create an application. */
export const createApplication = /* @__PURE__ */ operation<t.CreateApplicationData, t.CreateApplicationResponse>('POST', '/applications', create)

/** List environments. */
export const listEnvironments = /* @__PURE__ */ operation<t.ListEnvironmentsData, t.ListEnvironmentsResponse>('GET', '/applications/{id}/environments', repeat, '', 'whole')

/** List organization variables. */
export const listOrganizationVariables = /* @__PURE__ */ operation<t.ListOrganizationVariablesData, t.ListOrganizationVariablesResponse>('GET', '/organizations/{id}/env-vars', repeat, '', 'whole')

/** Create an organization variable. */
export const createOrganizationVariable = /* @__PURE__ */ operation<t.CreateOrganizationVariableData, t.CreateOrganizationVariableResponse>('POST', '/organizations/{id}/env-vars', create)

/** Update an organization variable. */
export const updateOrganizationVariable = /* @__PURE__ */ operation<t.UpdateOrganizationVariableData, t.UpdateOrganizationVariableResponse>('PATCH', '/organizations/{id}/env-vars/{varId}', once)

/** Delete an organization variable. */
export const deleteOrganizationVariable = /* @__PURE__ */ operation<t.DeleteOrganizationVariableData, t.DeleteOrganizationVariableResponse>('DELETE', '/organizations/{id}/env-vars/{varId}', remove)

/** List application variables. */
export const listApplicationVariables = /* @__PURE__ */ operation<t.ListApplicationVariablesData, t.ListApplicationVariablesResponse>('GET', '/applications/{id}/env-vars', repeat, '', 'whole')

/** Create an application variable. */
export const createApplicationVariable = /* @__PURE__ */ operation<t.CreateApplicationVariableData, t.CreateApplicationVariableResponse>('POST', '/applications/{id}/env-vars', create)

/** Pull variables. */
export const pullVariables = /* @__PURE__ */ operation<t.PullVariablesData, t.PullVariablesResponse>('GET', '/applications/{id}/env-vars/pull', repeat, 'environment', 'whole')

/** Update an application variable. */
export const updateApplicationVariable = /* @__PURE__ */ operation<t.UpdateApplicationVariableData, t.UpdateApplicationVariableResponse>('PATCH', '/applications/{id}/env-vars/{varId}', once)

/** Delete an application variable. */
export const deleteApplicationVariable = /* @__PURE__ */ operation<t.DeleteApplicationVariableData, t.DeleteApplicationVariableResponse>('DELETE', '/applications/{id}/env-vars/{varId}', remove)

/** List activity. */
export const listActivity = /* @__PURE__ */ operation<t.ListActivityData, t.ListActivityResponse>('GET', '/applications/{id}/activity', repeat, 'cursor limit type', 'cursor')

/** Stream activity. */
export const streamActivity = /* @__PURE__ */ operation<t.StreamActivityData, t.StreamActivityResponse>('GET', '/applications/{id}/activity/stream', repeat)

/** List API keys. */
export const listApiKeys = /* @__PURE__ */ operation<t.ListApiKeysData, t.ListApiKeysResponse>('GET', '/api-keys', repeat, 'applicationId', 'whole')

/** Create an API key. */
export const createApiKey = /* @__PURE__ */ tellingLostSecret(/* @__PURE__ */ operation<t.CreateApiKeyData, t.CreateApiKeyResponse>('POST', '/api-keys', create))

/** Revoke an API key. */
export const deleteApiKey = /* @__PURE__ */ operation<t.DeleteApiKeyData, t.DeleteApiKeyResponse>('DELETE', '/api-keys/{apiKeyId}', remove)

/** Get the signing keys. */
export const getJwks = /* @__PURE__ */ operation<t.GetJwksData, t.GetJwksResponse>('GET', '/.well-known/jwks.json', repeat)

/** Get authorization server metadata. */
export const getAuthorizationServer = /* @__PURE__ */ operation<t.GetAuthorizationServerData, t.GetAuthorizationServerResponse>('GET', '/.well-known/oauth-authorization-server', repeat)

/** Get protected resource metadata. */
export const getProtectedResource = /* @__PURE__ */ operation<t.GetProtectedResourceData, t.GetProtectedResourceResponse>('GET', '/.well-known/oauth-protected-resource', repeat)

/** Create a chat completion. */
export const createChatCompletion = /* @__PURE__ */ operation<t.CreateChatCompletionData, t.CreateChatCompletionResponse>('POST', '/ai/v1/chat/completions', infer, '', undefined, placed)

/** Create a response. */
export const createResponse = /* @__PURE__ */ operation<t.CreateResponseData, t.CreateResponseResponse>('POST', '/ai/v1/responses', infer, '', undefined, placed)

/** Create speech. */
export const createSpeech = /* @__PURE__ */ operation<t.CreateSpeechData, t.CreateSpeechResponse>('POST', '/ai/v1/audio/speech', infer, '', undefined, placed)

/** Create a transcription. */
export const createTranscription = /* @__PURE__ */ operation<t.CreateTranscriptionData, t.CreateTranscriptionResponse | string>('POST', '/ai/v1/audio/transcriptions', infer, '', undefined, placed)

/** List video models. */
export const listVideoModels = /* @__PURE__ */ operation<t.ListVideoModelsData, t.ListVideoModelsResponse>('GET', '/ai/v1/videos/models', repeat, '', 'whole', placed)

/** Create a video. */
export const createVideo = /* @__PURE__ */ operation<t.CreateVideoData, t.CreateVideoResponse>('POST', '/ai/v1/videos', create, '', undefined, placedOnce)

/** Get a video job. */
export const getVideo = /* @__PURE__ */ operation<t.GetVideoData, t.GetVideoResponse>('GET', '/ai/v1/videos/{id}', repeat, '', undefined, placed)

/** Get the content of a video. */
export const getVideoContent = /* @__PURE__ */ operation<t.GetVideoContentData, t.GetVideoContentResponse>('GET', '/ai/v1/videos/{id}/content', repeat, '', undefined, placed)

/** List models. */
export const listModels = /* @__PURE__ */ operation<t.ListModelsData, t.ListModelsResponse>('GET', '/ai/v1/models', repeat, '', 'whole', placed)

/** Get a model. */
export const getModel = /* @__PURE__ */ operation<t.GetModelData, t.GetModelResponse>('GET', '/ai/v1/models/{id}', repeat, '', undefined, placed)

/** List provider keys. */
export const listAiProviderKeys = /* @__PURE__ */ operation<t.ListAiProviderKeysData, t.ListAiProviderKeysResponse>('GET', '/organizations/{id}/ai-gateway/provider-keys', repeat, '', 'whole')

/** Set a provider key. */
export const setAiProviderKey = /* @__PURE__ */ operation<t.SetAiProviderKeyData, t.SetAiProviderKeyResponse>('PUT', '/organizations/{id}/ai-gateway/provider-keys/{provider}', repeat)

/** Delete a provider key. */
export const deleteAiProviderKey = /* @__PURE__ */ operation<t.DeleteAiProviderKeyData, t.DeleteAiProviderKeyResponse>('DELETE', '/organizations/{id}/ai-gateway/provider-keys/{provider}', remove)

/** List budgets. */
export const listAiBudgets = /* @__PURE__ */ operation<t.ListAiBudgetsData, t.ListAiBudgetsResponse>('GET', '/organizations/{id}/ai-gateway/budgets', repeat, '', 'whole')

/** Replace budgets. */
export const replaceAiBudgets = /* @__PURE__ */ operation<t.ReplaceAiBudgetsData, t.ReplaceAiBudgetsResponse>('PUT', '/organizations/{id}/ai-gateway/budgets', repeat)

/** Get a policy. */
export const getAiPolicy = /* @__PURE__ */ operation<t.GetAiPolicyData, t.GetAiPolicyResponse>('GET', '/organizations/{id}/ai-gateway/policies', repeat, 'applicationId')

/** Set a policy. */
export const setAiPolicy = /* @__PURE__ */ operation<t.SetAiPolicyData, t.SetAiPolicyResponse>('PUT', '/organizations/{id}/ai-gateway/policies', repeat)

/** Delete a policy. */
export const deleteAiPolicy = /* @__PURE__ */ operation<t.DeleteAiPolicyData, t.DeleteAiPolicyResponse>('DELETE', '/organizations/{id}/ai-gateway/policies', remove, 'applicationId')

/** Summarize AI usage. */
export const summarizeAiUsage = /* @__PURE__ */ operation<t.SummarizeAiUsageData, t.SummarizeAiUsageResponse>('GET', '/organizations/{id}/ai-gateway/usage/summary', repeat, 'from to applicationId model provider status requestId authenticatedUserId callerEndUserId interval')

/** List AI requests. */
export const listAiUsageRequests = /* @__PURE__ */ operation<t.ListAiUsageRequestsData, t.ListAiUsageRequestsResponse>('GET', '/organizations/{id}/ai-gateway/usage/requests', repeat, 'cursor limit from to applicationId model provider status requestId authenticatedUserId callerEndUserId', 'cursor')

/** Export AI requests. */
export const exportAiUsage = /* @__PURE__ */ operation<t.ExportAiUsageData, t.ExportAiUsageResponse>('GET', '/organizations/{id}/ai-gateway/usage/export', repeat, 'from to applicationId model provider status requestId authenticatedUserId callerEndUserId')

/** List buckets. */
export const listBuckets = /* @__PURE__ */ operation<t.ListBucketsData, t.ListBucketsResponse>('GET', '/applications/{applicationId}/environments/{environment}/storage/buckets', repeat, '', 'whole')

/** Create a bucket. */
export const createBucket = /* @__PURE__ */ operation<t.CreateBucketData, t.CreateBucketResponse>('POST', '/applications/{applicationId}/environments/{environment}/storage/buckets', create)

/** Get a bucket. */
export const getBucket = /* @__PURE__ */ operation<t.GetBucketData, t.GetBucketResponse>('GET', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}', repeat)

/** Delete a bucket. */
export const deleteBucket = /* @__PURE__ */ operation<t.DeleteBucketData, t.DeleteBucketResponse>('DELETE', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}', remove, 'force')

/** List objects. */
export const listObjects = /* @__PURE__ */ operation<t.ListObjectsData, t.ListObjectsResponse>('GET', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/objects', repeat, 'cursor limit prefix delimiter', 'cursor')

/** Move objects to the trash. */
export const trashObjects = /* @__PURE__ */ operation<t.TrashObjectsData, t.TrashObjectsResponse>('DELETE', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/objects', repeat, 'prefix')

/** Get an object. */
export const getObject = /* @__PURE__ */ operation<t.GetObjectData, t.GetObjectResponse>('GET', '/applications/{applicationId}/environments/{environment}/objects/{objectId}', repeat)

/** Move an object to the trash. */
export const trashObject = /* @__PURE__ */ operation<t.TrashObjectData, t.TrashObjectResponse>('DELETE', '/applications/{applicationId}/environments/{environment}/objects/{objectId}', remove)

/** Get an access URL. */
export const getObjectAccessUrl = /* @__PURE__ */ operation<t.GetObjectAccessUrlData, t.GetObjectAccessUrlResponse>('GET', '/applications/{applicationId}/environments/{environment}/objects/{objectId}/access-url', repeat, 'expiresInSeconds')

/** List the trash. */
export const listTrash = /* @__PURE__ */ operation<t.ListTrashData, t.ListTrashResponse>('GET', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/trash', repeat, 'cursor limit', 'cursor')

/** Empty the trash. */
export const emptyTrash = /* @__PURE__ */ operation<t.EmptyTrashData, t.EmptyTrashResponse>('DELETE', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/trash', repeat)

/** Restore an object. */
export const restoreObject = /* @__PURE__ */ operation<t.RestoreObjectData, t.RestoreObjectResponse>('POST', '/applications/{applicationId}/environments/{environment}/trash/{objectId}/restore', once)

/** Restore objects. */
export const restoreObjects = /* @__PURE__ */ operation<t.RestoreObjectsData, t.RestoreObjectsResponse>('POST', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/trash/restore', once)

/** Purge an object. */
export const purgeObject = /* @__PURE__ */ operation<t.PurgeObjectData, t.PurgeObjectResponse>('DELETE', '/applications/{applicationId}/environments/{environment}/trash/{objectId}', remove)

/** List upload sessions. */
export const listUploadSessions = /* @__PURE__ */ operation<t.ListUploadSessionsData, t.ListUploadSessionsResponse>('GET', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/uploads', repeat, '', 'whole')

/** Create an upload session. */
export const createUploadSession = /* @__PURE__ */ operation<t.CreateUploadSessionData, t.CreateUploadSessionResponse>('POST', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/uploads', create)

/** Get an upload session. */
export const getUploadSession = /* @__PURE__ */ operation<t.GetUploadSessionData, t.GetUploadSessionResponse>('GET', '/applications/{applicationId}/environments/{environment}/buckets/{bucket}/uploads/{sessionId}', repeat)

/** List deployments. */
export const listDeployments = /* @__PURE__ */ operation<t.ListDeploymentsData, t.ListDeploymentsResponse>('GET', '/deployments', repeat, 'from limit organizationId applicationId environment environmentId status', 'from')

/** Create a deployment. */
export const createDeployment = /* @__PURE__ */ operation<t.CreateDeploymentData, t.CreateDeploymentResponse>('POST', '/deployments', create)

/** Get a deployment. */
export const getDeployment = /* @__PURE__ */ operation<t.GetDeploymentData, t.GetDeploymentResponse>('GET', '/deployments/{id}', repeat)

/** Start an upload. */
export const startUpload = /* @__PURE__ */ operation<t.StartUploadData, t.StartUploadResponse>('POST', '/deployments/{id}/upload/start', repeat)

/** Create a part upload URL. */
export const createPartUrl = /* @__PURE__ */ operation<t.CreatePartUrlData, t.CreatePartUrlResponse>('POST', '/deployments/{id}/upload/part', repeat)

/** Complete an upload. */
export const completeUpload = /* @__PURE__ */ operation<t.CompleteUploadData, t.CompleteUploadResponse>('POST', '/deployments/{id}/upload/complete', repeat)

/** Promote a deployment. */
export const promoteDeployment = /* @__PURE__ */ operation<t.PromoteDeploymentData, t.PromoteDeploymentResponse>('POST', '/deployments/{id}/promote', repeat)

/** Cancel a deployment. */
export const cancelDeployment = /* @__PURE__ */ operation<t.CancelDeploymentData, t.CancelDeploymentResponse>('POST', '/deployments/{id}/cancel', once)

/** List build log lines. */
export const listBuildLogs = /* @__PURE__ */ operation<t.ListBuildLogsData, t.ListBuildLogsResponse>('GET', '/deployments/{id}/logs', repeat, 'offset limit createdAt[gt]', 'offset')

/** Stream the build log. */
export const streamBuildLog = /* @__PURE__ */ operation<t.StreamBuildLogData, t.StreamBuildLogResponse>('GET', '/deployments/{id}/logs/stream', repeat)

/** List deployed files. */
export const listDeploymentFiles = /* @__PURE__ */ operation<t.ListDeploymentFilesData, t.ListDeploymentFilesResponse>('GET', '/deployments/{id}/files', repeat, 'cursor limit', 'cursor')

/** List hostnames. */
export const listHostnames = /* @__PURE__ */ operation<t.ListHostnamesData, t.ListHostnamesResponse>('GET', '/applications/{id}/hostnames', repeat, '', 'whole')

/** List deployment hostnames. */
export const listDeploymentHostnames = /* @__PURE__ */ operation<t.ListDeploymentHostnamesData, t.ListDeploymentHostnamesResponse>('GET', '/deployments/{id}/hostnames', repeat, '', 'whole')

/** Check label availability. */
export const getHostnameAvailability = /* @__PURE__ */ operation<t.GetHostnameAvailabilityData, t.GetHostnameAvailabilityResponse>('GET', '/applications/{id}/hostname/availability', repeat, 'label')

/** Set the production hostname. */
export const setHostname = /* @__PURE__ */ operation<t.SetHostnameData, t.SetHostnameResponse>('PUT', '/applications/{id}/hostname', repeat)

/** List requests. */
export const listRequests = /* @__PURE__ */ operation<t.ListRequestsData, t.ListRequestsResponse>('GET', '/applications/{id}/requests', repeat, 'cursor limit from to method status statusFamily hostname pathPrefix country cacheStatus cacheHit deploymentId deploymentFunctionId deploymentAssetId storageBucketId storageObjectId region edgeLocation', 'cursor')

/** Summarize requests. */
export const summarizeRequests = /* @__PURE__ */ operation<t.SummarizeRequestsData, t.SummarizeRequestsResponse>('GET', '/applications/{id}/requests/summary', repeat, 'from to interval groupBy')

/** Stream requests. */
export const streamRequests = /* @__PURE__ */ operation<t.StreamRequestsData, t.StreamRequestsResponse>('GET', '/applications/{id}/requests/stream', repeat)

/** Get a request. */
export const getRequest = /* @__PURE__ */ operation<t.GetRequestData, t.GetRequestResponse>('GET', '/applications/{id}/requests/{requestId}', repeat)

/** List deployment runtime logs. */
export const listRuntimeLogs = /* @__PURE__ */ operation<t.ListRuntimeLogsData, t.ListRuntimeLogsResponse>('GET', '/deployments/{id}/runtime-logs', repeat, 'cursor limit level search functionId requestId from to', 'cursor')

/** Stream deployment runtime logs. */
export const streamRuntimeLogs = /* @__PURE__ */ operation<t.StreamRuntimeLogsData, t.StreamRuntimeLogsResponse>('GET', '/deployments/{id}/runtime-logs/stream', repeat, 'level search functionId')

/** List application runtime logs. */
export const listApplicationRuntimeLogs = /* @__PURE__ */ operation<t.ListApplicationRuntimeLogsData, t.ListApplicationRuntimeLogsResponse>('GET', '/applications/{id}/runtime-logs', repeat, 'cursor limit level search functionId requestId from to', 'cursor')

/** Stream application runtime logs. */
export const streamApplicationRuntimeLogs = /* @__PURE__ */ operation<t.StreamApplicationRuntimeLogsData, t.StreamApplicationRuntimeLogsResponse>('GET', '/applications/{id}/runtime-logs/stream', repeat, 'level search functionId')

/** List Functions. */
export const listDeploymentFunctions = /* @__PURE__ */ operation<t.ListDeploymentFunctionsData, t.ListDeploymentFunctionsResponse>('GET', '/deployments/{id}/functions', repeat, 'cursor limit', 'cursor')

/** List cron jobs. */
export const listCrons = /* @__PURE__ */ operation<t.ListCronsData, t.ListCronsResponse>('GET', '/deployments/{id}/crons', repeat, '', 'whole')

/** List cron job runs. */
export const listCronRuns = /* @__PURE__ */ operation<t.ListCronRunsData, t.ListCronRunsResponse>('GET', '/deployments/{id}/crons/{cronId}/runs', repeat, 'from limit', 'from')

/** Run a cron job. */
export const runCron = /* @__PURE__ */ operation<t.RunCronData, t.RunCronResponse>('POST', '/deployments/{id}/crons/{cronId}/run', once)

/** Get the image cache. */
export const inspectImageCache = /* @__PURE__ */ operation<t.InspectImageCacheData, t.InspectImageCacheResponse>('GET', '/deployments/{id}/image-cache', repeat, 'source')

/** Purge the image cache. */
export const purgeImageCache = /* @__PURE__ */ operation<t.PurgeImageCacheData, t.PurgeImageCacheResponse>('DELETE', '/deployments/{id}/image-cache', repeat, 'source')

/** Create a sticky URL. */
export const createStickyUrl = /* @__PURE__ */ operation<t.CreateStickyUrlData, t.CreateStickyUrlResponse>('POST', '/sticky-sessions/urls', once)

/** List quotas and usage. */
export const listQuotas = /* @__PURE__ */ operation<t.ListQuotasData, t.ListQuotasResponse>('GET', '/organizations/{id}/quotas', repeat, '', 'whole')

/** Get the overview. */
export const getOverview = /* @__PURE__ */ operation<t.GetOverviewData, t.GetOverviewResponse>('GET', '/organizations/{id}/overview', repeat, 'cursor limit', 'cursor')

/** Get the OpenAPI document. */
export const getOpenApiDocument = /* @__PURE__ */ operation<t.GetOpenApiDocumentData, t.GetOpenApiDocumentResponse>('GET', '/docs/json', repeat)

/** Get a client to download. */
export const getClientFile = /* @__PURE__ */ operation<t.GetClientFileData, t.GetClientFileResponse | string>('GET', '/docs/clients/{file}', repeat)
